// A completion in one piece: text_completion.
#include <utility>

#include "api/completion_choice.h"

namespace reprise {
namespace {

class CompletionWholeWriter final : public ReplyWriter {
 public:
  CompletionWholeWriter(ReplyPlan plan, ReplyOutlet outlet, const Tokenizer& tokenizer)
      : plan_(std::move(plan)),
        outlet_(std::move(outlet)),
        choices_(completion_choices(plan_, tokenizer)),
        replies_(choices_.size()) {
    for (std::size_t i = 0; i < replies_.size(); i++) replies_[i].text = choices_[i].echo();
  }

  void progress(int, Position, Position, Position, double) override {}
  void prompt_done(int, const Usage&) override {}

  void prompt_logprobs(int choice, std::vector<SampledToken> tokens) override {
    choices_[static_cast<std::size_t>(choice)].add_prompt_logprobs(tokens);
  }

  void delta(int choice, ChoiceDelta delta) override {
    const auto index = static_cast<std::size_t>(choice);
    Reply& reply = replies_[index];
    reply.text += joined_text(delta);
    reply.ids.insert(reply.ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    choices_[index].add_logprobs(delta.logprobs);
  }

  void choice_end(int choice, const ChoiceEnd& end) override {
    replies_[static_cast<std::size_t>(choice)].end = end;
  }

  void end(const Usage& usage) override {
    JsonWriter json;
    begin_reply(json, plan_.identity, "text_completion");
    json.key("choices").begin_array();
    for (std::size_t index = 0; index < choices_.size(); index++) append_choice(json, index);
    json.end_array();
    append_usage(json, usage, plan_.cache_details, {});
    outlet_.send_whole(json.end_object().take(), replies_.front().end.usage);
  }

  void fail(const ApiError& error) override { outlet_.fail(error); }

 private:
  struct Reply {
    std::string text;
    std::vector<TokenId> ids;
    ChoiceEnd end;
  };

  void append_choice(JsonWriter& json, std::size_t index) {
    const Reply& reply = replies_[index];
    json.begin_object();
    json.key("index").integer(index);
    json.key("text").text(reply.text);
    const std::string logprobs = choices_[index].take_logprobs();
    ChoiceTail tail;
    tail.logprobs = logprobs;
    tail.finish_reason = finish_reason_name(reply.end.reason);
    tail.prompt_token_ids = choices_[index].prompt_ids();
    if (plan_.return_token_ids) tail.token_ids = &reply.ids;
    end_choice(json, tail);
  }

  const ReplyPlan plan_;
  ReplyOutlet outlet_;
  std::vector<CompletionChoice> choices_;
  std::vector<Reply> replies_;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_completion_whole(ReplyPlan plan, ReplyOutlet outlet,
                                                   const Tokenizer& tokenizer) {
  return std::make_unique<CompletionWholeWriter>(std::move(plan), std::move(outlet), tokenizer);
}

}  // namespace reprise
