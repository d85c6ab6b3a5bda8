// A chat's reply in pieces: chat.completion.chunk.
#include <span>
#include <utility>

#include "api/logprobs.h"
#include "api/reply_writers.h"
#include "api/stream_head.h"

namespace reprise {
namespace {

class ChatStreamWriter final : public ReplyWriter {
 public:
  ChatStreamWriter(ReplyPlan plan, ReplyOutlet outlet, const Tokenizer& tokenizer)
      : plan_(std::move(plan)),
        outlet_(std::move(outlet)),
        choices_(plan_.choice_count(), Choice(tokenizer)) {}

  void progress(int choice, Position done, Position cached, Position total,
                double elapsed_ms) override {
    head_.begin_with_progress(outlet_, cached);
    JsonWriter json = begin_chunk();
    begin_choice_object(json, choice);
    json.key("delta").begin_object().end_object();
    end_choice(json, {});
    json.end_array();
    append_progress(json, done, cached, total, elapsed_ms);
    send_chunk(std::move(json));
  }

  void prompt_done(int, const Usage& usage) override { head_.prompt_done(usage); }
  void prompt_logprobs(int, std::vector<SampledToken>) override {}

  void delta(int choice, ChoiceDelta delta) override {
    begin(choice);
    if (delta.is_empty()) return;
    Choice& mine = choices_[static_cast<std::size_t>(choice)];
    for (const SampledToken& token : delta.logprobs) mine.logprobs.add(token);
    const std::string logprobs = mine.logprobs.take();
    ChoiceTail tail;
    tail.logprobs = logprobs;
    if (plan_.return_token_ids) tail.token_ids = &delta.token_ids;
    // What is hidden behind a stop string has no text.
    if (delta.parts.empty()) delta.parts.emplace_back();
    for (const ReplyPart& part : delta.parts) {
      send_part(choice, part, tail);
      tail = {};  // the tokens are told once
    }
  }

  void choice_end(int choice, const ChoiceEnd& end) override {
    head_.prompt_done(end.usage);
    begin(choice);
    reasoning_tokens_ += end.reasoning_tokens;
    JsonWriter json = begin_chunk();
    begin_choice_object(json, choice);
    json.key("delta").begin_object().end_object();
    ChoiceTail tail;
    tail.finish_reason = finish_reason_name(end.reason);
    end_choice(json, tail);
    json.end_array();
    send_chunk(std::move(json));
  }

  void end(const Usage& usage) override {
    if (plan_.include_usage) {
      JsonWriter json = begin_chunk();
      json.end_array();
      append_usage(json, usage, plan_.cache_details, reasoning_tokens_);
      outlet_.send_event(json.end_object().take());
    }
    outlet_.send_event("[DONE]");
    outlet_.end_stream();
  }

  void fail(const ApiError& error) override { outlet_.fail(error); }

 private:
  struct Choice {
    explicit Choice(const Tokenizer& tokenizer) : logprobs(tokenizer, ReplyKind::chat) {}
    LogprobsWriter logprobs;
    std::size_t calls = 0;
    bool has_begun = false;
  };

  // OpenAI's first chunk of a choice says who speaks.
  void begin(int choice) {
    Choice& mine = choices_[static_cast<std::size_t>(choice)];
    if (std::exchange(mine.has_begun, true)) return;
    head_.begin(outlet_);
    JsonWriter json = begin_chunk();
    begin_choice_object(json, choice);
    json.key("delta").begin_object();
    json.key("role").text("assistant");
    json.key("content").text("");
    json.end_object();
    ChoiceTail tail;
    if (plan_.return_token_ids) {
      tail.prompt_token_ids = &plan_.prompt_ids[static_cast<std::size_t>(choice) / plan_.choices];
    }
    end_choice(json, tail);
    json.end_array();
    send_chunk(std::move(json));
  }

  void send_part(int choice, const ReplyPart& part, const ChoiceTail& tail) {
    JsonWriter json = begin_chunk();
    begin_choice_object(json, choice);
    json.key("delta").begin_object();
    switch (part.kind) {
      case ReplyPart::Kind::content:
        json.key("content").text(part.text);
        break;
      case ReplyPart::Kind::reasoning:
        json.key("reasoning_content").text(part.text);
        break;
      case ReplyPart::Kind::tool_name:
      case ReplyPart::Kind::tool_arguments:
        append_call(json, choice, part);
        break;
    }
    json.end_object();
    end_choice(json, tail);
    json.end_array();
    send_chunk(std::move(json));
  }

  // The first chunk of a call has its id and name, the others more of the arguments.
  void append_call(JsonWriter& json, int choice, const ReplyPart& part) {
    std::size_t& calls = choices_[static_cast<std::size_t>(choice)].calls;
    const bool is_new = part.kind == ReplyPart::Kind::tool_name;
    if (is_new) calls++;
    const std::size_t call = calls > 0 ? calls - 1 : 0;
    json.key("tool_calls").begin_array().begin_object();
    json.key("index").integer(call);
    if (is_new) {
      json.key("id").text(tool_call_id(plan_.identity.id, choice, call));
      json.key("type").text("function");
    }
    json.key("function").begin_object();
    if (is_new) json.key("name").text(part.text);
    json.key("arguments").text(is_new ? std::string_view() : part.text);
    json.end_object().end_object().end_array();
  }

  JsonWriter begin_chunk() const {
    JsonWriter json;
    begin_reply(json, plan_.identity, "chat.completion.chunk");
    json.key("choices").begin_array();
    return json;
  }
  static void begin_choice_object(JsonWriter& json, int choice) {
    json.begin_object();
    json.key("index").integer(choice);
  }
  void send_chunk(JsonWriter json) {
    if (plan_.include_usage) json.key("usage").null();
    outlet_.send_event(json.end_object().take());
  }

  ReplyPlan plan_;
  ReplyOutlet outlet_;
  StreamHead head_;
  std::vector<Choice> choices_;
  Position reasoning_tokens_ = 0;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_chat_stream(ReplyPlan plan, ReplyOutlet outlet,
                                              const Tokenizer& tokenizer) {
  return std::make_unique<ChatStreamWriter>(std::move(plan), std::move(outlet), tokenizer);
}

}  // namespace reprise
