// Tokens to the parts of a reply.
#include "api/choice_sink.h"

#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "text/same_text.h"

namespace reprise {
namespace {

// The parts that go on where the one before stopped become one with it.
void append_merged(std::vector<ReplyPart>& parts, ReplyPart part) {
  const bool begins_call = part.kind == ReplyPart::Kind::tool_name;
  if (part.text.empty() && !begins_call) return;
  if (!parts.empty() && parts.back().kind == part.kind && !begins_call) {
    parts.back().text += part.text;
  } else {
    parts.push_back(std::move(part));
  }
}

}  // namespace

ChoiceSink::ChoiceSink(const Tokenizer& tokenizer, ChoicePlan plan, ReplyGroup& group,
                       LiveRequests::Ticket ticket)
    : ticket_(std::move(ticket)),
      tokenizer_(tokenizer),
      group_(group),
      choice_(plan.choice),
      reads_special_(plan.format != ReplyFormat::plain),
      logprobs_(plan.logprobs),
      return_token_ids_(plan.return_token_ids),
      detokenizer_(tokenizer),
      stop_strings_(std::move(plan.stop)),
      in_thoughts_(plan.parser.in_reasoning) {
  parser_ = make_reply_parser(plan.format, std::move(plan.parser));
}

ChoiceSink::~ChoiceSink() = default;

SequenceSink::Verdict ChoiceSink::on_token(const SampledToken& token) {
  if (group_.is_over()) return Verdict::cancel;
  count_token();
  if (logprobs_) pending_.logprobs.push_back(token);
  if (return_token_ids_) pending_.token_ids.push_back(token.id);
  pending_.token_count++;
  const std::size_t parts_before = pending_.parts.size();
  if (reads_special_ && tokenizer_.is_special(token.id)) {
    add_special(token.id);
  } else {
    add_text(detokenizer_.push(token.id));
  }
  count_thoughts(parts_before);
  if (!pending_.parts.empty()) {
    send();
  } else if (!has_begun_) {
    group_.delta(choice_, {});
  }
  has_begun_ = true;
  return stop_strings_.stopped() ? Verdict::stop : Verdict::go_on;
}

void ChoiceSink::on_end(const SequenceEnd& end) {
  const double seconds = group_.seconds_since_accept();
  group_.metrics().observe_end(end, seconds);
  spdlog::debug("{}: choice {}: prompt {} (cached {}), completion {}, {:.0f} ms", group_.id(),
                choice_, end.usage.prompt_tokens, end.usage.cached_tokens,
                end.usage.completion_tokens, seconds * 1000);
  const bool is_whole = end.reason == FinishReason::stop || end.reason == FinishReason::length;
  if (!is_whole) {
    group_.end_in_error(end);
    return;
  }
  finish_text();
  if (!pending_.is_empty()) send();
  ChoiceEnd choice_end;
  const bool has_stopped = stop_strings_.stopped() || end.reason == FinishReason::stop;
  choice_end.reason = !has_stopped       ? ChoiceEnd::Reason::length
                      : has_whole_call() ? ChoiceEnd::Reason::tool_calls
                                         : ChoiceEnd::Reason::stop;
  choice_end.stop_string = stop_strings_.found();
  choice_end.usage = end.usage;
  choice_end.reasoning_tokens = thought_tokens_;
  choice_end.timings = end.timings;
  group_.end(choice_, std::move(choice_end));
}

void ChoiceSink::on_prompt_done(const Usage& usage) {
  group_.prompt_done(choice_, usage);
}

void ChoiceSink::on_prompt_logprobs(std::span<const SampledToken> tokens) {
  group_.prompt_logprobs(choice_, {tokens.begin(), tokens.end()});
}

void ChoiceSink::on_prefill(Position done, Position cached, Position total) {
  group_.progress(choice_, done, cached, total);
}

bool ChoiceSink::is_same_text(std::span<const TokenId> cached, std::span<const TokenId> prompt) {
  return reprise::is_same_text(tokenizer_, cached, prompt);
}

// The times between tokens are the stream's, whether it is read as one or not.
void ChoiceSink::count_token() {
  const auto now = std::chrono::steady_clock::now();
  if (has_begun_) {
    group_.metrics().observe_inter_token(
        std::chrono::duration<double>(now - last_token_at_).count());
  } else {
    group_.metrics().observe_first_token(group_.seconds_since_accept());
  }
  last_token_at_ = now;
}

// A token counts to what it was seen to become; one whose text is held back, to what came before.
void ChoiceSink::count_thoughts(std::size_t parts_before) {
  if (pending_.parts.size() > parts_before) {
    in_thoughts_ = pending_.parts.back().kind == ReplyPart::Kind::reasoning;
  }
  if (in_thoughts_) thought_tokens_++;
}

void ChoiceSink::add_text(std::string_view text) {
  if (stop_strings_.stopped() || text.empty()) return;
  const StopStrings::Outcome outcome = stop_strings_.push(text);
  if (!outcome.text.empty()) parser_->push(outcome.text, pending_.parts);
}

void ChoiceSink::add_special(TokenId id) {
  add_text(detokenizer_.finish());
  if (stop_strings_.stopped()) return;
  const std::string held = stop_strings_.finish();
  if (!held.empty()) parser_->push(held, pending_.parts);
  if (!stop_strings_.stopped()) parser_->push_special(tokenizer_.token_bytes(id), pending_.parts);
}

// Lets out what was held back: bytes of an unfinished character, the beginning of a stop string,
// what might have become a call.
void ChoiceSink::finish_text() {
  add_text(detokenizer_.finish());
  if (!stop_strings_.stopped()) {
    const std::string held = stop_strings_.finish();
    if (!held.empty()) parser_->push(held, pending_.parts);
  }
  parser_->finish(pending_.parts);
}

void ChoiceSink::send() {
  note_calls();
  ChoiceDelta delta = std::exchange(pending_, {});
  std::vector<ReplyPart> parts = std::exchange(delta.parts, {});
  for (ReplyPart& part : parts) append_merged(delta.parts, std::move(part));
  group_.delta(choice_, std::move(delta));
}

void ChoiceSink::note_calls() {
  for (const ReplyPart& part : pending_.parts) {
    if (part.kind == ReplyPart::Kind::tool_name) {
      calls_++;
      newest_arguments_.clear();
    } else if (part.kind == ReplyPart::Kind::tool_arguments) {
      newest_arguments_ += part.text;
    }
  }
}

// Only the newest call can have been cut off.
bool ChoiceSink::has_whole_call() const {
  return calls_ > 1 || (calls_ == 1 && parse_json(newest_arguments_, kCallLimits).has_value());
}

}  // namespace reprise
