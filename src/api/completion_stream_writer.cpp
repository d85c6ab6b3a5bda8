// A completion in pieces: text_completion objects.
#include <utility>

#include "api/completion_choice.h"
#include "api/stream_head.h"

namespace reprise {
namespace {

class CompletionStreamWriter final : public ReplyWriter {
 public:
  CompletionStreamWriter(ReplyPlan plan, ReplyOutlet outlet, const Tokenizer& tokenizer)
      : plan_(std::move(plan)),
        outlet_(std::move(outlet)),
        choices_(completion_choices(plan_, tokenizer)),
        has_begun_(choices_.size(), false) {}

  void progress(int choice, Position done, Position cached, Position total,
                double elapsed_ms) override {
    head_.begin_with_progress(outlet_, cached);
    JsonWriter json = begin_chunk();
    append_choice(json, choice, "", {});
    json.end_array();
    append_progress(json, done, cached, total, elapsed_ms);
    send_chunk(std::move(json));
  }

  void prompt_done(int, const Usage& usage) override { head_.prompt_done(usage); }

  void prompt_logprobs(int choice, std::vector<SampledToken> tokens) override {
    choices_[static_cast<std::size_t>(choice)].add_prompt_logprobs(tokens);
  }

  void delta(int choice, ChoiceDelta delta) override {
    begin(choice);
    if (delta.is_empty()) return;
    CompletionChoice& mine = choices_[static_cast<std::size_t>(choice)];
    mine.add_logprobs(delta.logprobs);
    const std::string logprobs = mine.take_logprobs();
    ChoiceTail tail;
    tail.logprobs = logprobs;
    if (plan_.return_token_ids) tail.token_ids = &delta.token_ids;
    send_choice(choice, joined_text(delta), tail);
  }

  void choice_end(int choice, const ChoiceEnd& end) override {
    head_.prompt_done(end.usage);
    begin(choice);
    ChoiceTail tail;
    tail.finish_reason = finish_reason_name(end.reason);
    send_choice(choice, "", tail);
  }

  void end(const Usage& usage) override {
    if (plan_.include_usage) {
      JsonWriter json = begin_chunk();
      json.end_array();
      append_usage(json, usage, plan_.cache_details, {});
      outlet_.send_event(json.end_object().take());
    }
    outlet_.send_event("[DONE]");
    outlet_.end_stream();
  }

  void fail(const ApiError& error) override { outlet_.fail(error); }

 private:
  // A chunk of its own where the choice begins with something that is known: an echo, the prompt's
  // ids.
  void begin(int choice) {
    const auto index = static_cast<std::size_t>(choice);
    if (has_begun_[index]) return;
    has_begun_[index] = true;
    head_.begin(outlet_);
    CompletionChoice& mine = choices_[index];
    if (plan_.echoes.empty() && !plan_.return_token_ids) return;
    const std::string logprobs = mine.take_logprobs();
    ChoiceTail tail;
    tail.logprobs = logprobs;
    tail.prompt_token_ids = mine.prompt_ids();
    send_choice(choice, mine.echo(), tail);
  }

  void send_choice(int choice, std::string_view text, const ChoiceTail& tail) {
    JsonWriter json = begin_chunk();
    append_choice(json, choice, text, tail);
    json.end_array();
    send_chunk(std::move(json));
  }

  static void append_choice(JsonWriter& json, int choice, std::string_view text,
                            const ChoiceTail& tail) {
    json.begin_object();
    json.key("index").integer(choice);
    json.key("text").text(text);
    end_choice(json, tail);
  }

  JsonWriter begin_chunk() const {
    JsonWriter json;
    begin_reply(json, plan_.identity, "text_completion");
    json.key("choices").begin_array();
    return json;
  }
  void send_chunk(JsonWriter json) {
    if (plan_.include_usage) json.key("usage").null();
    outlet_.send_event(json.end_object().take());
  }

  const ReplyPlan plan_;
  ReplyOutlet outlet_;
  StreamHead head_;
  std::vector<CompletionChoice> choices_;
  std::vector<bool> has_begun_;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_completion_stream(ReplyPlan plan, ReplyOutlet outlet,
                                                    const Tokenizer& tokenizer) {
  return std::make_unique<CompletionStreamWriter>(std::move(plan), std::move(outlet), tokenizer);
}

}  // namespace reprise
