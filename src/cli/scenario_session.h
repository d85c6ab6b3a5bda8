// The conversations of a scenario with one server: each turn asked, timed, and set against what a
// perfect prompt cache would have had to compute. Works with any OpenAI-compatible server.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/token_tree.h"
#include "http/client.h"

namespace reprise {

struct ScenarioMessage {
  std::string role;
  std::string content;
};
using Conversation = std::vector<ScenarioMessage>;

struct ScenarioTurn {
  std::string name;
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;
  int reusable_tokens = 0;  // of the prompt: what earlier prompts and replies begin with
  double first_token_ms = 0;
  double total_ms = 0;
  double cold_first_token_ms = 0;  // the same prompt without the cache; 0: not measured
  std::vector<double> gaps_ms;     // between pieces of the reply
  JsonObject body;                 // as sent
  std::string reply;

  int prefilled_tokens() const { return prompt_tokens - cached_tokens; }
  int appended_tokens() const { return prompt_tokens - reusable_tokens; }
};

class ScenarioSession {
 public:
  // Asks the server for its model's name. Errors: as send_request's; corrupt for a server that
  // does not list one.
  static Result<ScenarioSession> open(const HttpAddress& address, bool is_quiet);

  // Appends the user's message and then the reply. Any thread, each with its own conversation.
  // Errors: io; corrupt when the reply is not OpenAI's form or carries an error.
  Status ask(std::string name, Conversation& conversation, std::string user, int max_tokens);
  // The same for a conversation that ends with a user's message (an edit, a regeneration).
  Status ask_again(std::string name, Conversation& conversation, int max_tokens);

  // Sends some `count` of the turns again without the cache, for their time to first token.
  Status measure_cold(int count);
  // GET /v1/cache/stats; an empty object from servers that have none.
  JsonObject cache_stats() const;

  const std::vector<ScenarioTurn>& turns() const { return turns_; }
  const TokenTree& tree() const { return tree_; }
  // False when the server gives no token ids: reusable tokens are then an estimate from its counts.
  bool has_exact_ids() const { return exact_ids_; }
  // True for a server of ours.
  bool is_ours() const { return ours_; }

 private:
  struct Streamed;
  ScenarioSession(HttpAddress address, bool is_quiet)
      : address_(std::move(address)), quiet_(is_quiet) {}
  Result<Streamed> stream(const JsonObject& body) const;
  Result<JsonObject> post(const std::string& path, const JsonObject& body) const;
  // Ids of the prompt and the reply as a foreign server tokenises them; errors when it cannot.
  Status tokenise(const JsonObject& body, Streamed& streamed) const;
  void account(ScenarioTurn& turn, Streamed& streamed, int begun);
  void print(const ScenarioTurn& turn) const;

  HttpAddress address_;
  bool quiet_ = false;
  std::string model_;
  bool ours_ = false;
  bool exact_ids_ = true;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  TokenTree tree_;  // the members from here on under the mutex
  int clock_ = 0;   // turns begun and ended
  std::vector<ScenarioTurn> turns_;
};

}  // namespace reprise
