// Requests, their streams, and the account of tokens.
#include "cli/scenario_session.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/printable.h"
#include "cli/progress_line.h"

namespace reprise {

using Clock = std::chrono::steady_clock;

constexpr auto kTimeout = std::chrono::minutes(10);

struct ScenarioSession::Streamed {
  std::string text;
  int prompt_tokens = -1;
  int completion_tokens = 0;
  int cached_tokens = -1;
  std::vector<TokenId> prompt_ids;
  std::vector<TokenId> reply_ids;
  bool last_id_forwarded = false;  // the reply's last id: not before another was sampled behind it
  std::vector<Clock::time_point> arrivals;  // of pieces with text
  double first_token_ms = 0;
  double total_ms = 0;
  Status trouble = {};
};

namespace {

double milliseconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

std::unexpected<Error> bad_reply(const HttpAddress& address, std::string_view what) {
  return fail(Errc::corrupt, fmt::format("{} port {}: {}", address.host, address.port, what));
}

const JsonValue* member(const JsonValue* value, std::string_view name) {
  const JsonObject* object = value != nullptr ? value->if_object() : nullptr;
  return object != nullptr ? object->if_contains(name) : nullptr;
}

int integer_or(const JsonValue* value, int otherwise) {
  if (value == nullptr || !value->is_number()) return otherwise;
  return static_cast<int>(value->to_number<double>());
}

std::string text_of(const JsonValue* value) {
  if (value == nullptr || !value->is_string()) return {};
  return std::string(value->get_string().data(), value->get_string().size());
}

void append_ids(const JsonValue* value, std::vector<TokenId>& ids) {
  const JsonArray* list = value != nullptr ? value->if_array() : nullptr;
  if (list == nullptr) return;
  for (const JsonValue& id : *list) ids.push_back(integer_or(&id, 0));
}

JsonObject request_body(const std::string& model, const Conversation& conversation,
                        int max_tokens) {
  JsonArray messages;
  for (const ScenarioMessage& message : conversation)
    messages.push_back(JsonObject{{"role", message.role}, {"content", message.content}});
  return {{"model", model},           {"messages", std::move(messages)},
          {"max_tokens", max_tokens}, {"temperature", 0},
          {"stream", true},           {"stream_options", JsonObject{{"include_usage", true}}},
          {"return_token_ids", true}};
}

// Roles and texts as one string of bytes: what stands in for ids that a server does not tell.
std::vector<TokenId> bytes_of(const JsonObject& body, const std::string* reply) {
  std::vector<TokenId> bytes;
  const auto add = [&](std::string_view text) {
    for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  };
  for (const JsonValue& message : body.at("messages").as_array()) {
    add(text_of(member(&message, "role")));
    add("\n");
    add(text_of(member(&message, "content")));
    add("\n");
  }
  if (reply != nullptr) add("assistant\n" + *reply);
  return bytes;
}

}  // namespace

Result<ScenarioSession> ScenarioSession::open(const HttpAddress& address, bool is_quiet) {
  HttpRequest request;
  request.path = "/v1/models";
  TRY_ASSIGN(const HttpReply reply, send_request(address, request));
  TRY_ASSIGN(const JsonValue json, parse_json(reply.body));
  const JsonValue* data = member(&json, "data");
  const JsonArray* models = data != nullptr ? data->if_array() : nullptr;
  if (!reply.is_success() || models == nullptr || models->empty())
    return bad_reply(address, fmt::format("GET /v1/models: status {}, no model", reply.status));
  ScenarioSession session(address, is_quiet);
  session.model_ = text_of(member(&models->front(), "id"));
  session.ours_ = !session.cache_stats().empty();
  return session;
}

Result<JsonObject> ScenarioSession::post(const std::string& path, const JsonObject& body) const {
  HttpRequest request;
  request.method = "POST";
  request.path = path;
  request.json = to_json(body);
  TRY_ASSIGN(const HttpReply reply, send_request(address_, request));
  if (!reply.is_success())
    return bad_reply(address_, fmt::format("POST {}: status {}", path, reply.status));
  TRY_ASSIGN(const JsonValue json, parse_json(reply.body));
  if (!json.is_object()) return bad_reply(address_, path + ": no JSON object");
  return json.get_object();
}

JsonObject ScenarioSession::cache_stats() const {
  HttpRequest request;
  request.path = "/v1/cache/stats";
  const Result<HttpReply> reply = send_request(address_, request);
  if (!reply || !reply->is_success()) return {};
  Result<JsonValue> json = parse_json(reply->body);
  return json && json->is_object() ? json->get_object() : JsonObject{};
}

Result<ScenarioSession::Streamed> ScenarioSession::stream(const JsonObject& body) const {
  Streamed streamed;
  const auto take = [&](const ServerSentEvent& event) {
    const Result<JsonValue> json = parse_json(event.data);
    if (!json || member(&*json, "error") != nullptr) {
      streamed.trouble = bad_reply(address_, "a turn failed: " + printable(event.data, 300));
      return false;
    }
    const JsonValue* usage = member(&*json, "usage");
    streamed.prompt_tokens = integer_or(member(usage, "prompt_tokens"), streamed.prompt_tokens);
    streamed.completion_tokens =
        integer_or(member(usage, "completion_tokens"), streamed.completion_tokens);
    streamed.cached_tokens = integer_or(
        member(member(usage, "prompt_tokens_details"), "cached_tokens"), streamed.cached_tokens);
    // llama.cpp's server: in every version that streams usage.
    const JsonValue* cached = member(member(&*json, "timings"), "cache_n");
    if (cached != nullptr) streamed.cached_tokens = integer_or(cached, 0);
    const JsonValue* choices = member(&*json, "choices");
    const JsonArray* list = choices != nullptr ? choices->if_array() : nullptr;
    if (list == nullptr || list->empty()) return true;
    const JsonValue* choice = &list->front();
    append_ids(member(choice, "prompt_token_ids"), streamed.prompt_ids);
    append_ids(member(choice, "token_ids"), streamed.reply_ids);
    if (text_of(member(choice, "finish_reason")) == "stop") streamed.last_id_forwarded = true;
    const std::string piece = text_of(member(member(choice, "delta"), "content"));
    if (!piece.empty()) streamed.arrivals.push_back(event.arrival);
    streamed.text += piece;
    return true;
  };
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.json = to_json(body);
  request.timeout = kTimeout;
  const Clock::time_point begin = Clock::now();
  TRY_ASSIGN(const HttpReply reply, stream_request(address_, request, take));
  streamed.total_ms = milliseconds_between(begin, Clock::now());
  TRY(streamed.trouble);
  if (!reply.is_success()) {
    return bad_reply(address_, fmt::format("a turn was refused with {}: {}", reply.status,
                                           printable(reply.body, 300)));
  }
  if (!reply.saw_done || streamed.prompt_tokens < 0)
    return bad_reply(address_, "a stream ended without usage and [DONE]");
  streamed.first_token_ms = streamed.arrivals.empty()
                                ? streamed.total_ms
                                : milliseconds_between(begin, streamed.arrivals.front());
  return streamed;
}

Status ScenarioSession::tokenise(const JsonObject& body, Streamed& streamed) const {
  const auto ids_of = [&](const std::string& text, bool special) -> Result<std::vector<TokenId>> {
    TRY_ASSIGN(
        const JsonObject reply,
        post("/tokenize", {{"content", text}, {"add_special", special}, {"parse_special", true}}));
    std::vector<TokenId> ids;
    append_ids(reply.if_contains("tokens"), ids);
    return ids;
  };
  TRY_ASSIGN(const JsonObject rendered,
             post("/apply-template", {{"messages", body.at("messages")}}));
  TRY_ASSIGN(streamed.prompt_ids, ids_of(text_of(rendered.if_contains("prompt")), true));
  TRY_ASSIGN(streamed.reply_ids, ids_of(streamed.text, false));
  if (static_cast<int>(streamed.prompt_ids.size()) == streamed.prompt_tokens) return {};
  return bad_reply(address_, fmt::format("/tokenize: got {} tokens, but the prompt had {}",
                                         streamed.prompt_ids.size(), streamed.prompt_tokens));
}

void ScenarioSession::account(ScenarioTurn& turn, Streamed& streamed, int begun) {
  const auto prompt_size = static_cast<double>(std::max(streamed.prompt_tokens, 1));
  double tokens_per_id = 1;
  std::vector<TokenId> all;
  const bool exact = !streamed.prompt_ids.empty();
  if (exact) {
    all = streamed.prompt_ids;
    std::span<const TokenId> reply = streamed.reply_ids;
    if (!reply.empty() && !streamed.last_id_forwarded) reply = reply.first(reply.size() - 1);
    all.insert(all.end(), reply.begin(), reply.end());
  } else {
    streamed.prompt_ids = bytes_of(turn.body, nullptr);
    all = bytes_of(turn.body, &streamed.text);
    tokens_per_id = prompt_size / static_cast<double>(streamed.prompt_ids.size());
  }
  const std::scoped_lock lock(*mutex_);
  if (!exact) exact_ids_ = false;
  turn.reusable_tokens = static_cast<int>(
      tokens_per_id * static_cast<double>(tree_.common_prefix(streamed.prompt_ids, begun)));
  tree_.add(all, clock_++);
  if (!quiet_) print(turn);
  turns_.push_back(std::move(turn));
}

void ScenarioSession::print(const ScenarioTurn& turn) const {
  if (turns_.empty()) {
    write_stderr(fmt::format("{:<34} {:>7} {:>7} {:>9} {:>9} {:>10} {:>9}\n", "turn", "prompt",
                             "cached", "prefilled", "appended", "first ms", "total ms"));
  }
  write_stderr(fmt::format("{:<34} {:>7} {:>7} {:>9} {:>9} {:>10.1f} {:>9.0f}\n", turn.name,
                           turn.prompt_tokens, turn.cached_tokens, turn.prefilled_tokens(),
                           turn.appended_tokens(), turn.first_token_ms, turn.total_ms));
}

Status ScenarioSession::ask(std::string name, Conversation& conversation, std::string user,
                            int max_tokens) {
  conversation.push_back({"user", std::move(user)});
  return ask_again(std::move(name), conversation, max_tokens);
}

Status ScenarioSession::ask_again(std::string name, Conversation& conversation, int max_tokens) {
  ScenarioTurn turn;
  turn.name = std::move(name);
  turn.body = request_body(model_, conversation, max_tokens);
  int begun = 0;
  {
    const std::scoped_lock lock(*mutex_);
    begun = clock_++;
  }
  TRY_ASSIGN(Streamed streamed, stream(turn.body));
  if (streamed.prompt_ids.empty()) {
    // A server without these endpoints gets estimates.
    if (!tokenise(turn.body, streamed)) streamed.prompt_ids.clear();
  }
  turn.prompt_tokens = streamed.prompt_tokens;
  turn.completion_tokens = streamed.completion_tokens;
  turn.cached_tokens = std::max(streamed.cached_tokens, 0);
  turn.first_token_ms = streamed.first_token_ms;
  turn.total_ms = streamed.total_ms;
  for (std::size_t i = 1; i < streamed.arrivals.size(); i++) {
    turn.gaps_ms.push_back(milliseconds_between(streamed.arrivals[i - 1], streamed.arrivals[i]));
  }
  turn.reply = streamed.text;
  conversation.push_back({"assistant", streamed.text});
  account(turn, streamed, begun);
  return {};
}

Status ScenarioSession::measure_cold(int count) {
  const auto turns = static_cast<int>(turns_.size());
  for (int i = 0; i < std::min(count, turns); i++) {
    ScenarioTurn& turn = turns_[static_cast<std::size_t>((2 * i + 1) * turns / (2 * count))];
    JsonObject body = turn.body;
    body["cache_prompt"] = false;
    body["max_tokens"] = 1;
    TRY_ASSIGN(const Streamed streamed, stream(body));
    turn.cold_first_token_ms = streamed.first_token_ms;
  }
  return {};
}

}  // namespace reprise
