// A choice put together from its deltas.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "api/reply_writer.h"

namespace reprise {

struct CollectedCall {
  std::string name;
  std::string arguments;  // JSON, unless the reply's end cut it off
};

struct CollectedChoice {
  std::string content, reasoning;
  std::vector<CollectedCall> calls;
  std::vector<TokenId> token_ids;

  // Takes the parts and the ids.
  void add(ChoiceDelta delta) {
    for (ReplyPart& part : delta.parts) add_part(std::move(part));
    token_ids.insert(token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  }

 private:
  void add_part(ReplyPart part) {
    switch (part.kind) {
      case ReplyPart::Kind::content:
        content += part.text;
        return;
      case ReplyPart::Kind::reasoning:
        reasoning += part.text;
        return;
      case ReplyPart::Kind::tool_name:
        calls.push_back({std::move(part.text), {}});
        return;
      case ReplyPart::Kind::tool_arguments:
        if (calls.empty()) return;  // a parser names a call first
        calls.back().arguments += part.text;
        return;
    }
  }
};

}  // namespace reprise
