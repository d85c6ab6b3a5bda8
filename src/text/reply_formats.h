// One parser a format, behind make_reply_parser.
#pragma once
#include <memory>

#include "text/reply_parser.h"

namespace reprise {

std::unique_ptr<ReplyParser> make_hermes_parser(ReplyParserOptions options);
std::unique_ptr<ReplyParser> make_llama3_parser(ReplyParserOptions options);
std::unique_ptr<ReplyParser> make_llama4_parser(ReplyParserOptions options);
std::unique_ptr<ReplyParser> make_gemma4_parser(ReplyParserOptions options);
std::unique_ptr<ReplyParser> make_muse_parser(ReplyParserOptions options);

}  // namespace reprise
