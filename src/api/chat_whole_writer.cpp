// A chat's reply in one piece: chat.completion.
#include <optional>
#include <utility>

#include "api/collected_choice.h"
#include "api/logprobs.h"
#include "api/reply_writers.h"

namespace reprise {
namespace {

class ChatWholeWriter final : public ReplyWriter {
 public:
  ChatWholeWriter(ReplyPlan plan, ReplyOutlet outlet, const Tokenizer& tokenizer)
      : plan_(std::move(plan)),
        outlet_(std::move(outlet)),
        choices_(plan_.choice_count(), Choice(tokenizer)) {}

  void progress(int, Position, Position, Position, double) override {}
  void prompt_done(int, const Usage&) override {}
  void prompt_logprobs(int, std::vector<SampledToken>) override {}

  void delta(int choice, ChoiceDelta delta) override {
    Choice& mine = choices_[static_cast<std::size_t>(choice)];
    for (const SampledToken& token : delta.logprobs) mine.logprobs.add(token);
    mine.collected.add(std::move(delta));
  }

  void choice_end(int choice, const ChoiceEnd& end) override {
    choices_[static_cast<std::size_t>(choice)].end = end;
    reasoning_tokens_ += end.reasoning_tokens;
  }

  void end(const Usage& usage) override {
    JsonWriter json;
    begin_reply(json, plan_.identity, "chat.completion");
    json.key("choices").begin_array();
    for (std::size_t index = 0; index < choices_.size(); index++) append_choice(json, index);
    json.end_array();
    append_usage(json, usage, plan_.cache_details, reasoning_tokens_);
    outlet_.send_whole(json.end_object().take(), choices_.front().end.usage);
  }

  void fail(const ApiError& error) override { outlet_.fail(error); }

 private:
  struct Choice {
    explicit Choice(const Tokenizer& tokenizer) : logprobs(tokenizer, ReplyKind::chat) {}
    CollectedChoice collected;
    LogprobsWriter logprobs;
    ChoiceEnd end;
  };

  void append_choice(JsonWriter& json, std::size_t index) {
    Choice& choice = choices_[index];
    json.begin_object();
    json.key("index").integer(index);
    json.key("message");
    append_message(json, choice.collected, static_cast<int>(index));
    const std::string logprobs = choice.logprobs.take();
    ChoiceTail tail;
    tail.logprobs = logprobs;
    tail.finish_reason = finish_reason_name(choice.end.reason);
    if (plan_.return_token_ids) {
      tail.prompt_token_ids = &plan_.prompt_ids[index / plan_.choices];
      tail.token_ids = &choice.collected.token_ids;
    }
    end_choice(json, tail);
  }

  void append_message(JsonWriter& json, const CollectedChoice& message, int choice) const {
    json.begin_object();
    json.key("role").text("assistant");
    json.key("content");
    if (message.content.empty() && !message.calls.empty()) {
      json.null();
    } else {
      json.text(message.content);
    }
    json.key("refusal").null();
    if (!message.reasoning.empty()) json.key("reasoning_content").text(message.reasoning);
    if (!message.calls.empty()) {
      json.key("tool_calls").begin_array();
      for (std::size_t call = 0; call < message.calls.size(); call++) {
        json.begin_object();
        json.key("id").text(tool_call_id(plan_.identity.id, choice, call));
        json.key("type").text("function");
        json.key("function").begin_object();
        json.key("name").text(message.calls[call].name);
        json.key("arguments").text(message.calls[call].arguments);
        json.end_object().end_object();
      }
      json.end_array();
    }
    json.end_object();
  }

  ReplyPlan plan_;
  ReplyOutlet outlet_;
  std::vector<Choice> choices_;
  Position reasoning_tokens_ = 0;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_chat_whole(ReplyPlan plan, ReplyOutlet outlet,
                                             const Tokenizer& tokenizer) {
  return std::make_unique<ChatWholeWriter>(std::move(plan), std::move(outlet), tokenizer);
}

}  // namespace reprise
