// Token ids to text as they arrive: whole UTF-8 characters only, and no byte of a stop string.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "text/tokenizer.h"

namespace reprise {

// Holds back incomplete UTF-8; bytes that can never become a character turn into U+FFFD.
// concat(push..., finish) does not depend on how the ids were cut.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}  // must outlive this
  std::string push(TokenId id);  // special tokens stand for no text
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
};

// Finds the first stop string in a text that arrives in pieces. Text that may still turn out to be
// the beginning of a stop string is held back; the stop string and what follows it is never let
// out.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}  // none empty
  struct Outcome {
    std::string text;      // safe to send now
    bool stopped = false;  // a stop string was found; nothing follows
  };
  Outcome push(std::string_view piece);
  // The held-back rest, up to a stop string that waited for a longer, earlier one to turn out.
  std::string finish();
  bool stopped() const { return stopped_; }  // a stop string was found, by push or finish
  const std::string& found() const { return found_; }  // which one; empty: none

 private:
  std::size_t first_match();

  std::vector<std::string> stops_;
  std::string held_, found_;
  bool stopped_ = false;
};

}  // namespace reprise
