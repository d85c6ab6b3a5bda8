// What clients do, one function an operation.
#include "graph/graph_writer.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/core.h>

#include "support/random_sampling.h"

namespace reprise::testing {

GraphWriter::GraphWriter(Dice& dice, WriterLimits limits) : dice_(dice), limits_(limits) {
  const auto part = [&](std::int64_t least, std::int64_t most) {
    return dice_.tokens(dice_.between(least, most), limits_.vocabulary);
  };
  format_ = {part(0, 2), part(1, 3), part(1, 3), part(1, 2), part(0, 3)};
  for (int i = 0; i < limits_.scopes; i++) {
    scopes_.push_back({fmt::format("tenant{}", i / 2), fmt::format("salt{}", i)});
  }
  system_prompts_ = {{}, part(1, 40), part(40, 130)};
}

Message GraphWriter::user_message() {
  const std::int64_t most = dice_.chance(30) ? 90 : 25;
  return {.is_reply = false, .body = dice_.tokens(dice_.between(1, most), limits_.vocabulary)};
}

// One place of a text rewritten: other tokens instead, fewer, or more.
void GraphWriter::alter(std::vector<TokenId>& body) {
  const std::size_t at = dice_.below(body.size() + 1);
  const std::size_t gone = std::min(body.size() - at, dice_.below(4));
  const std::vector<TokenId> added = dice_.tokens(dice_.between(0, 3), limits_.vocabulary);
  const auto place = body.begin() + static_cast<std::ptrdiff_t>(at);
  body.erase(place, place + static_cast<std::ptrdiff_t>(gone));
  body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), added.begin(), added.end());
}

// How a client sends a reply back: as other tokens, cut off, or without its beginning.
void GraphWriter::alter_reply(std::vector<TokenId>& body) {
  if (body.empty()) return;
  switch (dice_.between(0, 2)) {
    case 0:
      alter(body);
      break;
    case 1:
      body.resize(dice_.below(body.size()));
      break;
    default:
      body.erase(body.begin(), body.begin() + dice_.between(1, std::ssize(body)));
  }
}

// Clients drop what no longer fits: the oldest messages first, then the end of the text.
void GraphWriter::fit(Conversation& conversation) const {
  const auto excess = [&] {
    return static_cast<Position>(render(format_, conversation).tokens.size()) + 1 -
           limits_.length_max;
  };
  while (excess() > 0 && conversation.size() > 1) conversation.erase(conversation.begin());
  if (excess() <= 0) return;
  std::vector<TokenId>& body = conversation.front().body;
  body.resize(body.size() - std::min(body.size(), static_cast<std::size_t>(excess())));
}

void GraphWriter::choose_sampling(GraphRequest& request) {
  SamplingParams& sampling = request.sampling;
  request.banned_ids.clear();
  if (dice_.chance(25)) {
    std::mt19937 random(static_cast<std::uint32_t>(dice_.between(0, 1 << 30)));
    sampling = random_sampling(random, limits_.vocabulary);
  } else {
    sampling = {};
    sampling.temperature = dice_.chance(40) ? 0 : dice_.chance(50) ? 1.0 : 0.7;
    if (dice_.chance(20)) sampling.top_k = static_cast<int>(dice_.between(1, 50));
    if (dice_.chance(20)) sampling.top_p = 0.9;
    if (dice_.chance(10)) sampling.min_p = 0.05;
  }
  if (dice_.chance(10)) {
    request.banned_ids = dice_.tokens(dice_.between(1, 30), limits_.vocabulary);
  }
  sampling.seed = static_cast<std::uint64_t>(dice_.between(0, 1000));
  request.choice = static_cast<std::uint32_t>(dice_.between(0, 1));
  request.top_logprobs = static_cast<int>(dice_.between(0, 5));
}

PlannedRequest GraphWriter::ask(std::string operation, Conversation conversation,
                                const CacheScope& scope) {
  fit(conversation);
  RenderedPrompt prompt = render(format_, conversation);
  PlannedRequest planned;
  planned.operation = std::move(operation);
  planned.conversation = std::move(conversation);
  GraphRequest& request = planned.request;
  const Position room = limits_.length_max - static_cast<Position>(prompt.tokens.size());
  const Position longest = dice_.chance(70) ? limits_.reply_usual : limits_.reply_max;
  request.max_tokens = dice_.between(1, std::min(room, longest));
  request.prompt = std::move(prompt.tokens);
  if (dice_.chance(80)) request.history_boundary = prompt.history_boundary;
  if (dice_.chance(80)) request.turn_ends = std::move(prompt.turn_ends);
  choose_sampling(request);
  if (dice_.chance(40)) request.stop_ids = dice_.tokens(dice_.between(1, 8), limits_.vocabulary);
  if (dice_.chance(30)) {
    request.stop_text_ids = dice_.tokens(dice_.between(1, 8), limits_.vocabulary);
  }
  if (dice_.chance(20)) request.min_tokens = dice_.between(0, request.max_tokens);
  request.scope = scope;
  request.use_cache = !dice_.chance(4);
  if (limits_.pins && dice_.chance(20)) request.pin_ms = dice_.chance(50) ? 1 : 60'000;
  if (dice_.chance(30)) request.priority = dice_.chance(50) ? Priority::low : Priority::high;
  return planned;
}

PlannedRequest GraphWriter::start() {
  Conversation conversation;
  const std::vector<TokenId>& system = dice_.pick(system_prompts_);
  if (!system.empty()) conversation.push_back({.is_reply = false, .body = system});
  conversation.push_back(user_message());
  return ask("start", std::move(conversation), dice_.pick(scopes_));
}

PlannedRequest GraphWriter::continued(const State& state) {
  Conversation conversation = state.conversation;
  std::string operation = "continue";
  if (conversation.back().is_reply && dice_.chance(30)) {
    alter_reply(conversation.back().body);
    operation = "continue with another reply";
  }
  conversation.push_back(user_message());
  return ask(std::move(operation), std::move(conversation), state.scope);
}

PlannedRequest GraphWriter::edited(const State& state) {
  Conversation conversation = state.conversation;
  const std::size_t place = dice_.below(conversation.size());
  alter(conversation[place].body);
  if (dice_.chance(50)) conversation.resize(place + 1);  // what came after it is gone
  if (conversation.back().is_reply) conversation.push_back(user_message());
  return ask(fmt::format("edit message {}", place), std::move(conversation), state.scope);
}

PlannedRequest GraphWriter::branched(const State& state) {
  Conversation conversation = state.conversation;
  const std::size_t kept = dice_.below(conversation.size());
  conversation.resize(kept);
  conversation.push_back(user_message());
  return ask(fmt::format("branch after {} messages", kept), std::move(conversation), state.scope);
}

// Asked before: the very same, with another seed, from elsewhere, or without its last tokens.
PlannedRequest GraphWriter::again(const PlannedRequest& earlier) {
  PlannedRequest planned = earlier;
  planned.starts_at = planned.cancelled_at = {};
  planned.is_cancelled_in_queue = false;
  planned.leaves_at = 0;
  GraphRequest& request = planned.request;
  switch (dice_.between(0, 5)) {
    case 0:
    case 1:
      planned.operation = "replay";
      break;
    case 2:
      planned.operation = "regenerate";
      choose_sampling(request);
      break;
    case 3:
      planned.operation = "ask from another scope";
      request.scope = dice_.pick(scopes_);
      break;
    case 4: {
      planned.operation = "complete a part of the prompt";
      request.prompt.resize(1 + dice_.below(request.prompt.size()));
      const auto length = static_cast<Position>(request.prompt.size());
      request.history_boundary = std::min(request.history_boundary, length);
      std::erase_if(request.turn_ends, [&](Position end) { return end > length; });
      planned.conversation = {{.is_reply = false, .body = request.prompt}};
      break;
    }
    default:
      planned.operation = "ask for more or less";
      request.max_tokens = dice_.between(
          1, std::min(limits_.reply_max,
                      limits_.length_max - static_cast<Position>(request.prompt.size())));
  }
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
  return planned;
}

PlannedRequest GraphWriter::next_request() {
  if (states_.empty() || dice_.chance(12)) return start();
  // Mostly where the talk is; else an older place.
  const std::size_t recent = std::min<std::size_t>(states_.size(), 3);
  const State state = dice_.chance(60) ? states_[states_.size() - 1 - dice_.below(recent)]
                                       : states_[dice_.below(states_.size())];
  const std::int64_t choice = dice_.between(1, 100);
  if (choice <= 45) return continued(state);
  if (choice <= 60) return edited(state);
  if (choice <= 75 || asked_.empty()) return branched(state);
  return again(dice_.pick(asked_));
}

Moment GraphWriter::moment_of(const std::vector<PlannedRequest>& batch, std::size_t index) {
  const GraphRequest& request = batch[index].request;
  if (dice_.chance(50)) {
    return {index, Moment::Kind::prefilled, dice_.between(1, std::ssize(request.prompt))};
  }
  return {index, Moment::Kind::tokens, dice_.between(1, request.max_tokens)};
}

// Who waits for whom, and who leaves when.
void GraphWriter::arrange(std::vector<PlannedRequest>& batch) {
  for (std::size_t i = 0; i < batch.size(); i++) {
    PlannedRequest& planned = batch[i];
    if (i > 0 && dice_.chance(40)) planned.starts_at = moment_of(batch, dice_.below(i));
    if (!dice_.chance(15)) continue;
    switch (dice_.between(0, 3)) {
      case 0:
        planned.is_cancelled_in_queue = true;
        break;
      case 1:
        planned.leaves_at = dice_.between(1, planned.request.max_tokens);
        break;
      default:
        planned.cancelled_at = moment_of(batch, dice_.chance(60) ? i : dice_.below(batch.size()));
    }
  }
}

std::vector<PlannedRequest> GraphWriter::next_batch() {
  std::vector<PlannedRequest> batch;
  const std::int64_t size =
      dice_.chance(limits_.together_usual) ? dice_.between(2, limits_.together_max) : 1;
  for (std::int64_t i = 0; i < size; i++) {
    batch.push_back(i > 0 && dice_.chance(15) ? again(dice_.pick(batch)) : next_request());
  }
  arrange(batch);
  return batch;
}

std::vector<PlannedRequest> GraphWriter::replay_of_newest() {
  if (asked_.empty()) return {};
  PlannedRequest planned = asked_.back();
  planned.operation = "replay the newest";
  planned.starts_at = planned.cancelled_at = {};
  return {planned};
}

void GraphWriter::remember(const PlannedRequest& planned, const Outcome& outcome) {
  State state{planned.conversation, planned.request.scope};
  state.conversation.push_back({.is_reply = true, .body = outcome.answer.ids});
  states_.push_back(std::move(state));
  const bool is_whole =
      outcome.end.reason == FinishReason::stop || outcome.end.reason == FinishReason::length;
  if (is_whole) asked_.push_back(planned);
}

}  // namespace reprise::testing
