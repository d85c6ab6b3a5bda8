// Reads whole replies with a reply parser, cut in any way, for tests and fuzzers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/reply_parser.h"

namespace reprise::testing {

// A part of a reply as the model gives it: text, or a special token.
struct ReplyPiece {
  std::string text;
  bool is_special = false;
};

// All parts of a reply put together.
struct WholeReply {
  struct Call {
    std::string name = {}, arguments = {};
    bool operator==(const Call&) const = default;
  };
  std::string content = {}, reasoning = {};
  std::vector<Call> calls = {};
  bool operator==(const WholeReply&) const = default;

  void add(const std::vector<ReplyPart>& parts) {
    for (const ReplyPart& part : parts) {
      CHECK(!part.text.empty());
      switch (part.kind) {
        case ReplyPart::Kind::content:
          content += part.text;
          break;
        case ReplyPart::Kind::reasoning:
          reasoning += part.text;
          break;
        case ReplyPart::Kind::tool_name:
          calls.push_back({.name = part.text, .arguments = {}});
          break;
        case ReplyPart::Kind::tool_arguments:
          CHECK(!calls.empty());
          calls.back().arguments += part.text;
          break;
      }
    }
  }
};

inline WholeReply read_reply(ReplyFormat format, const ReplyParserOptions& options,
                             const std::vector<ReplyPiece>& pieces) {
  const auto parser = make_reply_parser(format, options);
  WholeReply reply;
  std::vector<ReplyPart> parts;
  for (const ReplyPiece& piece : pieces) {
    parts.clear();
    if (piece.is_special) {
      parser->push_special(piece.text, parts);
    } else {
      parser->push(piece.text, parts);
    }
    reply.add(parts);
  }
  parts.clear();
  parser->finish(parts);
  reply.add(parts);
  return reply;
}

// The texts cut into pieces of `size` bytes.
inline std::vector<ReplyPiece> cut_pieces(const std::vector<ReplyPiece>& pieces, std::size_t size) {
  std::vector<ReplyPiece> result;
  for (const ReplyPiece& piece : pieces) {
    if (piece.is_special) {
      result.push_back(piece);
      continue;
    }
    for (std::size_t at = 0; at < piece.text.size(); at += size) {
      result.push_back({.text = piece.text.substr(at, size)});
    }
  }
  return result;
}

// Makes special tokens of these spellings in a text.
inline std::vector<ReplyPiece> with_specials(std::string_view text,
                                             const std::vector<std::string_view>& specials) {
  std::vector<ReplyPiece> pieces;
  std::string run;
  const auto end_run = [&] {
    if (!run.empty()) pieces.push_back({.text = std::exchange(run, {})});
  };
  while (!text.empty()) {
    std::string_view found;
    for (const std::string_view special : specials) {
      if (text.starts_with(special)) found = special;
    }
    if (found.empty()) {
      run += text.front();
      text.remove_prefix(1);
      continue;
    }
    end_run();
    pieces.push_back({.text = std::string(found), .is_special = true});
    text.remove_prefix(found.size());
  }
  end_run();
  return pieces;
}

}  // namespace reprise::testing
