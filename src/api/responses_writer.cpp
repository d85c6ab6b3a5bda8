// The writer of a response: parts of a reply become items, items become events.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "api/json_writer.h"
#include "api/logprobs.h"
#include "api/responses.h"
#include "api/responses_events.h"
#include "base/clock.h"
#include "base/json.h"
#include "text/reply_parser.h"

namespace reprise {
namespace {

using Kind = ResponseItem::Kind;
using State = ResponseItem::State;

void join_items(std::string& list, std::string_view more) {
  if (!list.empty() && !more.empty()) list += ',';
  list += more;
}

bool is_json_object(const std::string& text) {
  const Result<JsonValue> value = parse_json(text, kCallLimits);
  return value && value->is_object();
}

class ResponseWriter final : public ReplyWriter {
 public:
  ResponseWriter(ResponsePlan plan, ResponseIdentity identity, const Tokenizer& tokenizer,
                 ResponsesStore& store, ReplyOutlet outlet)
      : plan_(std::move(plan)),
        digits_(std::move(identity.digits)),
        object_("resp_" + digits_, std::move(identity.model), identity.created),
        tokenizer_(tokenizer),
        store_(store),
        outlet_(std::move(outlet)),
        events_(outlet_, plan_.stream) {
    for (std::size_t index = 0; index < plan_.items.size(); index++) {
      ResponseItem& item = plan_.items[index];
      if (item.id.empty()) {
        item.id = fmt::format("{}_{}i{:04x}", item_prefix(item.kind), digits_, index);
      }
    }
  }

  // Nothing is told of these: requests for them are refused.
  void progress(int, Position, Position, Position, double) override {}
  void prompt_logprobs(int, std::vector<SampledToken>) override {}

  void prompt_done(int, const Usage& usage) override { head_usage_ = usage; }
  void delta(int choice, ChoiceDelta delta) override;
  void choice_end(int choice, const ChoiceEnd& end) override;
  void end(const Usage& usage) override;
  void fail(const ApiError& error) override;

 private:
  void begin();
  void add(const ReplyPart& part, std::string_view logprobs);
  void open(Kind kind, std::string name = {});
  void set_function(ResponseItem& item, std::string name) const;
  void ensure_open(Kind kind);
  void grow(std::string_view text, std::string_view logprobs);
  void close(State state);

  ResponsePlan plan_;
  std::string digits_;
  ResponseObject object_;
  const Tokenizer& tokenizer_;
  ResponsesStore& store_;
  ReplyOutlet outlet_;
  ResponseEvents events_;
  std::optional<Usage> head_usage_;
  std::vector<ResponseItem> output_;
  bool is_open_ = false;          // the last item of the output
  std::string pending_logprobs_;  // of tokens whose text is held back
  bool is_cut_ = false;
  Position reasoning_tokens_ = 0;
};

void ResponseWriter::begin() {
  if (!plan_.stream || outlet_.has_begun()) return;
  outlet_.begin_stream(head_usage_);
  std::string object = object_.write(plan_, {});
  events_.response("response.created", object);
  events_.response("response.in_progress", std::move(object));
}

// Log probabilities are those of the message's text: they go out with its newest piece, and those
// of thoughts and calls nowhere.
void ResponseWriter::delta(int, ChoiceDelta delta) {
  begin();
  if (plan_.top_logprobs >= 0) {
    for (const SampledToken& token : delta.logprobs) {
      JsonWriter json;
      append_logprob(json, tokenizer_, token);
      join_items(pending_logprobs_, json.take());
    }
  }
  if (delta.parts.empty()) return;
  std::size_t newest_text = delta.parts.size();
  for (std::size_t index = 0; index < delta.parts.size(); index++) {
    if (delta.parts[index].kind == ReplyPart::Kind::content) newest_text = index;
  }
  const std::string logprobs = std::exchange(pending_logprobs_, {});
  for (std::size_t index = 0; index < delta.parts.size(); index++) {
    add(delta.parts[index], index == newest_text ? logprobs : std::string_view());
  }
}

void ResponseWriter::add(const ReplyPart& part, std::string_view logprobs) {
  switch (part.kind) {
    case ReplyPart::Kind::content:
      if (part.text.empty() && logprobs.empty()) return;
      ensure_open(Kind::message);
      break;
    case ReplyPart::Kind::reasoning:
      if (part.text.empty()) return;
      ensure_open(Kind::reasoning);
      break;
    case ReplyPart::Kind::tool_name:
      close(State::completed);
      open(Kind::function_call, part.text);
      return;
    case ReplyPart::Kind::tool_arguments:
      if (part.text.empty() || !is_open_ || output_.back().kind != Kind::function_call) return;
      break;
  }
  grow(part.text, logprobs);
}

void ResponseWriter::ensure_open(Kind kind) {
  if (is_open_ && output_.back().kind == kind) return;
  close(State::completed);
  open(kind);
}

void ResponseWriter::open(Kind kind, std::string name) {
  ResponseItem item;
  item.kind = kind;
  item.state = State::in_progress;
  item.id = fmt::format("{}_{}{:04x}", item_prefix(kind), digits_, output_.size());
  if (kind == Kind::message) item.role = "assistant";
  if (kind == Kind::function_call) {
    item.call_id = fmt::format("call_{}{:04x}", digits_, output_.size());
    set_function(item, std::move(name));
  }
  output_.push_back(std::move(item));
  is_open_ = true;
  events_.item_begins(output_.size() - 1, output_.back());
}

// The client's name of what the model has called.
void ResponseWriter::set_function(ResponseItem& item, std::string name) const {
  const std::vector<NamespacedFunction>& known = plan_.extras.tools.namespaced;
  const auto function = std::ranges::find(known, name, &NamespacedFunction::shown);
  item.name_space = function == known.end() ? std::string() : function->name_space;
  item.name = function == known.end() ? std::move(name) : function->name;
}

void ResponseWriter::grow(std::string_view text, std::string_view logprobs) {
  ResponseItem& item = output_.back();
  if (item.kind == Kind::function_call) {
    item.arguments += text;
  } else {
    if (item.texts.empty()) item.texts.emplace_back();
    item.texts.front() += text;
    join_items(item.logprobs, logprobs);
  }
  events_.item_grows(output_.size() - 1, item, text, logprobs);
}

void ResponseWriter::close(State state) {
  if (!std::exchange(is_open_, false)) return;
  ResponseItem& item = output_.back();
  if (item.kind == Kind::function_call) {
    if (item.arguments.empty() && state == State::completed) item.arguments = "{}";
    if (!is_json_object(item.arguments)) state = State::incomplete;
  } else if (item.texts.empty()) {
    item.texts.emplace_back();
  }
  item.state = state;
  events_.item_ends(output_.size() - 1, item);
}

// A reply without anything in it is a message without text: the next turn then has one to follow.
void ResponseWriter::choice_end(int, const ChoiceEnd& end) {
  begin();
  is_cut_ = end.reason == ChoiceEnd::Reason::length;
  reasoning_tokens_ = end.reasoning_tokens;
  if (output_.empty()) open(Kind::message);
  const std::string logprobs = std::exchange(pending_logprobs_, {});
  if (!logprobs.empty() && is_open_ && output_.back().kind == Kind::message) grow("", logprobs);
  close(is_cut_ ? State::incomplete : State::completed);
}

void ResponseWriter::end(const Usage& usage) {
  ResponseProgress progress;
  progress.status = is_cut_ ? ResponseStatus::incomplete : ResponseStatus::completed;
  progress.completed_at = unix_milliseconds() / 1000;
  progress.output = output_;
  progress.usage = &usage;
  progress.reasoning_tokens = reasoning_tokens_;
  std::string object = object_.write(plan_, progress);
  if (plan_.extras.store) {
    StoredResponse stored{object_.id(), object, std::move(plan_.items), 0};
    stored.input_count = stored.items.size();
    for (ResponseItem& item : output_) {
      item.logprobs = {};  // the body shows them; a conversation does not need them
      stored.items.push_back(std::move(item));
    }
    store_.put(plan_.tenant, std::move(stored));
    plan_.claim = {};
  }
  output_.clear();
  if (!plan_.stream) {
    outlet_.send_whole(std::move(object), usage);
    return;
  }
  events_.response(is_cut_ ? "response.incomplete" : "response.completed", std::move(object));
  outlet_.end_stream();
}

// A stream that has begun ends with the response, failed; it is not kept.
void ResponseWriter::fail(const ApiError& error) {
  if (!outlet_.has_begun()) {
    outlet_.fail(error);
    return;
  }
  if (is_open_) output_.back().state = State::incomplete;
  ResponseProgress progress;
  progress.status = ResponseStatus::failed;
  progress.output = output_;
  progress.error = &error;
  events_.response("response.failed", object_.write(plan_, progress));
  outlet_.end_stream();
}

}  // namespace

std::unique_ptr<ReplyWriter> make_response_writer(ResponsePlan plan, ResponseIdentity identity,
                                                  const Tokenizer& tokenizer, ResponsesStore& store,
                                                  ReplyOutlet outlet) {
  return std::make_unique<ResponseWriter>(std::move(plan), std::move(identity), tokenizer, store,
                                          std::move(outlet));
}

}  // namespace reprise
