// A choice's tokens on their way to text: detokenised, stopped at stop strings, taken apart into
// text, thoughts and calls, and handed to the reply that it belongs to.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/live_requests.h"
#include "api/reply_group.h"
#include "api/reply_writer.h"
#include "engine/request.h"
#include "text/detokenizer.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"

namespace reprise {

struct ChoicePlan {
  std::size_t choice = 0;
  std::vector<std::string> stop;
  ReplyFormat format = ReplyFormat::plain;
  ReplyParserOptions parser;
  bool logprobs = false;
  bool return_token_ids = false;
};

// Runs on the engine thread, so that the verdict to stop does not depend on timing; does nothing
// that waits. Stop strings act on the text as it is generated, thoughts and the spelling of calls
// included; special tokens have no text, and what they part cannot be one stop string in a format
// that knows them.
class ChoiceSink final : public SequenceSink {
 public:
  // The tokenizer must outlive this; the group does, by the ticket.
  ChoiceSink(const Tokenizer& tokenizer, ChoicePlan plan, ReplyGroup& group,
             LiveRequests::Ticket ticket);
  ~ChoiceSink() override;

  Verdict on_token(const SampledToken& token) override;
  void on_end(const SequenceEnd& end) override;
  void on_prompt_done(const Usage& usage) override;
  void on_prompt_logprobs(std::span<const SampledToken> tokens) override;
  void on_prefill(Position done, Position cached, Position total) override;
  bool is_same_text(std::span<const TokenId> cached, std::span<const TokenId> prompt) override;

 private:
  void count_token();
  void count_thoughts(std::size_t parts_before);
  void add_text(std::string_view text);
  void add_special(TokenId id);
  void finish_text();
  void send();
  void note_calls();
  bool has_whole_call() const;

  LiveRequests::Ticket ticket_;  // first: it leaves last
  const Tokenizer& tokenizer_;
  ReplyGroup& group_;
  const std::size_t choice_;
  const bool reads_special_, logprobs_, return_token_ids_;
  Detokenizer detokenizer_;
  StopStrings stop_strings_;
  std::unique_ptr<ReplyParser> parser_;
  ChoiceDelta pending_;  // not sent yet
  bool has_begun_ = false;
  std::size_t calls_ = 0;
  std::string newest_arguments_;
  bool in_thoughts_ = false;
  Position thought_tokens_ = 0;
  std::chrono::steady_clock::time_point last_token_at_;
};

}  // namespace reprise
