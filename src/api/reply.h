// Whole replies through a stream channel.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "api/api_error.h"
#include "api/stream_channel.h"

namespace reprise {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// Head, body, end.
void send_reply(StreamChannel& channel, ReplyHead head, std::string body);

// OpenAI's error form, with Retry-After where trying again helps (429, 503).
void send_error(StreamChannel& channel, const ApiError& error, HeaderList headers);

}  // namespace reprise
