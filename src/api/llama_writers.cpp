// llama-server's /completion: whole, and in pieces that only its own clients read.
#include <utility>

#include "api/completion_choice.h"
#include "api/llama_format.h"
#include "api/logprobs.h"
#include "api/stream_head.h"

namespace reprise {
namespace {

// A JSON list of the tokens' probabilities; empty for none.
std::string probabilities(const std::vector<SampledToken>& tokens, const Tokenizer& tokenizer) {
  if (tokens.empty()) return {};
  JsonWriter json;
  json.begin_array();
  for (const SampledToken& token : tokens) append_logprob(json, tokenizer, token, LogprobIds::yes);
  return json.end_array().take();
}

class LlamaWholeWriter final : public ReplyWriter {
 public:
  LlamaWholeWriter(ReplyPlan plan, ReplyOutlet outlet, const Tokenizer& tokenizer)
      : plan_(std::move(plan)),
        outlet_(std::move(outlet)),
        tokenizer_(&tokenizer),
        choices_(plan_.choice_count()) {}

  void progress(int, Position, Position, Position, double) override {}
  void prompt_done(int, const Usage&) override {}
  void prompt_logprobs(int, std::vector<SampledToken>) override {}

  void delta(int choice, ChoiceDelta delta) override {
    Choice& mine = choices_[static_cast<std::size_t>(choice)];
    mine.content += joined_text(delta);
    mine.tokens.insert(mine.tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
    for (SampledToken& token : delta.logprobs) mine.logprobs.push_back(std::move(token));
  }

  void choice_end(int choice, const ChoiceEnd& end) override {
    choices_[static_cast<std::size_t>(choice)].end = end;
  }

  void end(const Usage&) override {
    std::string body;
    for (std::size_t index = 0; index < choices_.size(); index++) {
      const Choice& choice = choices_[index];
      if (index > 0) body += ',';
      body += format_llama_reply(plan_, index, choice.content, choice.tokens,
                                 probabilities(choice.logprobs, *tokenizer_), choice.end);
    }
    if (choices_.size() > 1) body = "[" + body + "]";
    outlet_.send_whole(std::move(body), choices_.front().end.usage);
  }

  void fail(const ApiError& error) override { outlet_.fail(error); }

 private:
  struct Choice {
    std::string content;
    std::vector<TokenId> tokens;
    std::vector<SampledToken> logprobs;
    ChoiceEnd end;
  };

  const ReplyPlan plan_;
  ReplyOutlet outlet_;
  const Tokenizer* tokenizer_;
  std::vector<Choice> choices_;
};

// The last object of a choice has no text: it says how the choice ended. There is no [DONE].
class LlamaStreamWriter final : public ReplyWriter {
 public:
  LlamaStreamWriter(ReplyPlan plan, ReplyOutlet outlet, const Tokenizer& tokenizer)
      : plan_(std::move(plan)),
        outlet_(std::move(outlet)),
        tokenizer_(&tokenizer),
        usages_(plan_.choice_count()),
        predicted_(plan_.choice_count(), 0) {}

  void progress(int choice, Position done, Position cached, Position total,
                double elapsed_ms) override {
    head_.begin_with_progress(outlet_, cached);
    usages_[static_cast<std::size_t>(choice)].prompt_tokens = total;
    JsonWriter json = begin_piece(choice, "", {});
    append_progress(json, done, cached, total, elapsed_ms);
    outlet_.send_event(json.end_object().take());
  }

  void prompt_done(int choice, const Usage& usage) override {
    head_.prompt_done(usage);
    usages_[static_cast<std::size_t>(choice)] = usage;
  }
  void prompt_logprobs(int, std::vector<SampledToken>) override {}

  void delta(int choice, ChoiceDelta delta) override {
    head_.begin(outlet_);
    if (delta.is_empty()) return;
    predicted_[static_cast<std::size_t>(choice)] += static_cast<Position>(delta.token_count);
    JsonWriter json = begin_piece(choice, joined_text(delta), delta.token_ids);
    const std::string list = probabilities(delta.logprobs, *tokenizer_);
    if (!list.empty()) json.key("completion_probabilities").raw(list);
    outlet_.send_event(json.end_object().take());
  }

  void choice_end(int choice, const ChoiceEnd& end) override {
    head_.prompt_done(end.usage);
    head_.begin(outlet_);
    outlet_.send_event(
        format_llama_reply(plan_, static_cast<std::size_t>(choice), "", {}, "", end));
  }

  void end(const Usage&) override { outlet_.end_stream(); }
  void fail(const ApiError& error) override { outlet_.fail(error); }

 private:
  JsonWriter begin_piece(int choice, std::string_view content,
                         const std::vector<TokenId>& tokens) const {
    const auto index = static_cast<std::size_t>(choice);
    JsonWriter json;
    json.begin_object();
    json.key("index").integer(choice);
    json.key("content").text(content);
    append_token_ids(json.key("tokens"), tokens);
    json.key("stop").boolean(false);
    json.key("tokens_predicted").integer(predicted_[index]);
    json.key("tokens_evaluated").integer(usages_[index].prompt_tokens);
    return json;
  }

  const ReplyPlan plan_;
  ReplyOutlet outlet_;
  const Tokenizer* tokenizer_;
  StreamHead head_;
  std::vector<Usage> usages_;
  std::vector<Position> predicted_;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_llama_whole(ReplyPlan plan, ReplyOutlet outlet,
                                              const Tokenizer& tokenizer) {
  return std::make_unique<LlamaWholeWriter>(std::move(plan), std::move(outlet), tokenizer);
}

std::unique_ptr<ReplyWriter> make_llama_stream(ReplyPlan plan, ReplyOutlet outlet,
                                               const Tokenizer& tokenizer) {
  return std::make_unique<LlamaStreamWriter>(std::move(plan), std::move(outlet), tokenizer);
}

}  // namespace reprise
