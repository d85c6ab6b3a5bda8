// Workers that take the next return from one list.
#include "cli/scenario_storm.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "cli/scenario_text.h"
#include "cli/stack.h"

namespace reprise {
namespace {

constexpr int kReturns = 96;
constexpr int kReply = 12;

struct Visit {
  int conversation = 0;
  std::string name;
  std::string user;
};

// Asks all visits, kStormParallel at once, in order; a conversation waits for itself.
Status run_visits(ScenarioSession& session, const std::vector<Visit>& visits,
                  std::vector<Conversation>& conversations) {
  std::vector<std::mutex> busy(conversations.size());
  std::atomic<std::size_t> next = 0;
  std::mutex outcome_mutex;
  Status outcome;
  const auto work = [&] {
    for (std::size_t at = next++; at < visits.size(); at = next++) {
      const auto number = static_cast<std::size_t>(visits[at].conversation);
      const std::scoped_lock lock(busy[number]);
      const Status asked =
          session.ask(visits[at].name, conversations[number], visits[at].user, kReply);
      if (asked) continue;
      next = visits.size();
      const std::scoped_lock outcome_lock(outcome_mutex);
      outcome = asked;
    }
  };
  std::vector<std::jthread> workers;
  const Status started = unless_refused("the clients", [&]() -> Status {
    for (int i = 0; i < kStormParallel; i++) workers.emplace_back(work);
    return {};
  });
  if (!started) next = visits.size();
  workers.clear();  // joins
  TRY(started);
  return outcome;
}

StormOutcome reuse_of(const std::vector<ScenarioTurn>& turns, std::size_t returns_begin) {
  // Every conversation begun after the first ones found the shared prefix, and nothing else.
  int shared = turns[returns_begin - 1].reusable_tokens;
  for (std::size_t i = kStormParallel; i < returns_begin; i++)
    shared = std::min(shared, turns[i].reusable_tokens);
  double cached = 0, reusable = 0, own_cached = 0, own_reusable = 0;
  for (std::size_t i = returns_begin; i < turns.size(); i++) {
    const int possible = std::min(turns[i].reusable_tokens, turns[i].prompt_tokens - 1);
    cached += turns[i].cached_tokens;
    reusable += possible;
    own_cached += std::max(turns[i].cached_tokens - shared, 0);
    own_reusable += std::max(possible - shared, 0);
  }
  return {cached / std::max(reusable, 1.0), own_cached / std::max(own_reusable, 1.0)};
}

}  // namespace

Result<StormOutcome> run_storm(ScenarioSession& session) {
  ScenarioText text(4);
  const ScenarioMessage system = {"system", "You answer in a few words. " + text.words(180)};
  std::vector<Conversation> conversations(kStormConversations, Conversation{system});
  std::vector<Visit> begins, returns;
  for (int i = 0; i < kStormConversations; i++)
    begins.push_back({i, fmt::format("conversation {} begins", i + 1), text.words(320)});
  for (int i = 0; i < kReturns; i++) {
    const int number = text.draw(kStormConversations);
    returns.push_back({number, fmt::format("conversation {} is back", number + 1), text.words(24)});
  }
  TRY(run_visits(session, begins, conversations));
  const std::size_t returns_begin = session.turns().size();
  TRY(run_visits(session, returns, conversations));
  return reuse_of(session.turns(), returns_begin);
}

}  // namespace reprise
