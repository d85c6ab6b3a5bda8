// StopStrings: the first match in the text wins, of several at one place the longest; a match
// counts only when no earlier place can still become one, so the answer does not depend on the
// cutting.
#include <algorithm>
#include <utility>

#include "text/detokenizer.h"

namespace reprise {
namespace {

// The first place from which the rest of `text` is the beginning of a stop string, and not all of
// it.
std::size_t first_partial(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  const std::size_t begin = text.size() < longest ? 0 : text.size() - longest + 1;
  for (std::size_t place = begin; place < text.size(); ++place) {
    const std::string_view rest = text.substr(place);
    for (const std::string& stop : stops) {
      if (stop.size() > rest.size() && stop.starts_with(rest)) return place;
    }
  }
  return text.size();
}

}  // namespace

// The place of the first match in what is held; found_ is the longest one there.
std::size_t StopStrings::first_match() {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t place = held_.find(stop);
    if (place > first || place == std::string::npos) continue;
    if (place < first || stop.size() > found_.size()) found_ = stop;
    first = place;
  }
  return first;
}

StopStrings::Outcome StopStrings::push(std::string_view piece) {
  if (stopped_) return {.text = {}, .stopped = true};
  held_ += piece;
  const std::size_t match = first_match();
  const std::size_t partial = first_partial(held_, stops_);
  stopped_ = match != std::string::npos && match <= partial;
  if (!stopped_) found_.clear();
  Outcome outcome{.text = held_.substr(0, std::min(match, partial)), .stopped = stopped_};
  held_.erase(0, stopped_ ? held_.size() : outcome.text.size());
  return outcome;
}

std::string StopStrings::finish() {
  // A match that waited for an earlier one to turn out is now the first.
  if (stopped_) return {};
  const std::size_t match = first_match();
  stopped_ = match != std::string::npos;
  return std::exchange(held_, {}).substr(0, match);
}

}  // namespace reprise
