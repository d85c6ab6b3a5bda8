// What both forms of a completion keep of a choice: the log probabilities, those of an echoed
// prompt first.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "api/logprobs.h"
#include "api/reply_writers.h"

namespace reprise {

class CompletionChoice {
 public:
  // The plan must outlive this.
  CompletionChoice(const ReplyPlan& plan, std::size_t index, const Tokenizer& tokenizer)
      : plan_(&plan),
        tokenizer_(&tokenizer),
        prompt_(index / plan.choices),
        logprobs_(tokenizer, ReplyKind::completion) {}

  // What the choice's text begins with.
  std::string_view echo() const {
    return plan_->echoes.empty() ? std::string_view() : plan_->echoes[prompt_];
  }
  const std::vector<TokenId>* prompt_ids() const {
    return plan_->return_token_ids ? &plan_->prompt_ids[prompt_] : nullptr;
  }

  void add_prompt_logprobs(std::span<const SampledToken> tokens) {
    begin_logprobs();
    for (const SampledToken& token : tokens) logprobs_.add_prompt(token);
  }
  void add_logprobs(std::span<const SampledToken> tokens) {
    begin_logprobs();
    for (const SampledToken& token : tokens) logprobs_.add(token);
  }
  // A JSON value: what was added since the last time.
  std::string take_logprobs() {
    begin_logprobs();
    return logprobs_.take();
  }

 private:
  void begin_logprobs() {
    if (std::exchange(has_begun_, true) || !plan_->logprobs || plan_->echoes.empty()) return;
    const TokenId first = plan_->prompt_ids[prompt_].front();
    const std::string_view bytes = tokenizer_->token_bytes(first);
    logprobs_.add_first(first, !tokenizer_->is_special(first) || echo().starts_with(bytes));
  }

  const ReplyPlan* plan_;
  const Tokenizer* tokenizer_;
  std::size_t prompt_;
  LogprobsWriter logprobs_;
  bool has_begun_ = false;
};

inline std::vector<CompletionChoice> completion_choices(const ReplyPlan& plan,
                                                        const Tokenizer& tokenizer) {
  std::vector<CompletionChoice> choices;
  for (std::size_t index = 0; index < plan.choice_count(); index++) {
    choices.emplace_back(plan, index, tokenizer);
  }
  return choices;
}

// The text of a delta: completions do not tell its kinds apart.
inline std::string joined_text(const ChoiceDelta& delta) {
  std::string text;
  for (const ReplyPart& part : delta.parts) text += part.text;
  return text;
}

}  // namespace reprise
