// The scripts. Sizes: beyond windows of 512 tokens, and a minute or so for a small model.
#include "cli/scenario_scripts.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "cli/scenario_text.h"

namespace reprise {
namespace {

constexpr int kChatReply = 64;  // most tokens of a reply
constexpr int kAgentReply = 24;
// More than the slots that other servers have by default: agents seldom come one at a time.
constexpr int kAgentTasks = 6;

// The first `count` messages.
Conversation first_of(const Conversation& conversation, std::size_t count) {
  return {conversation.begin(), conversation.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Tool results for `steps` steps of an agent.
Status run_steps(ScenarioSession& session, ScenarioText& text, const std::string& name,
                 Conversation& conversation, int first, int steps) {
  for (int step = first; step < first + steps; step++) {
    TRY(session.ask(fmt::format("{} step {}", name, step), conversation,
                    fmt::format("Tool result {}: {}", step, text.words(80 + text.draw(60))),
                    kAgentReply));
  }
  return {};
}

}  // namespace

Result<int> run_chat_script(ScenarioSession& session) {
  constexpr int kTurns = 9;
  ScenarioText text(1);
  const ScenarioMessage system = {
      "system", "You are a careful assistant in a harbour office. " + text.words(200)};
  std::array<Conversation, 3> conversations = {Conversation{system}, {system}, {system}};
  for (int turn = 1; turn <= kTurns; turn++) {
    for (std::size_t number = 0; number < conversations.size(); number++) {
      TRY(session.ask(fmt::format("conversation {} turn {}", number + 1, turn),
                      conversations[number],
                      "Tell me more about this: " + text.words(80 + text.draw(40)), kChatReply));
    }
  }
  return static_cast<int>(conversations.size());
}

Result<int> run_agent_script(ScenarioSession& session) {
  ScenarioText text(2);
  std::string prompt = "You are an agent. You may call these tools:\n";
  for (int tool = 0; tool < 16; tool++) prompt += text.tool(tool);
  const ScenarioMessage system = {"system", prompt};
  std::vector<Conversation> tasks(kAgentTasks, Conversation{system});
  for (std::size_t number = 0; number < tasks.size(); number++) {
    TRY(session.ask(fmt::format("task {} begin", number + 1), tasks[number],
                    "Do this task: " + text.words(60), kAgentReply));
  }
  for (int step = 1; step <= 5; step++) {
    for (std::size_t number = 0; number < tasks.size(); number++) {
      TRY(run_steps(session, text, fmt::format("task {}", number + 1), tasks[number], step, 1));
    }
  }
  std::string findings = "The sub-agents found:";
  for (int number = 1; number <= 2; number++) {
    Conversation fork = tasks[0];
    const std::string name = fmt::format("sub-agent {}", number);
    TRY(session.ask(name + " begin", fork, "Do this part alone: " + text.words(40), kAgentReply));
    TRY(run_steps(session, text, name, fork, 1, 4));
    findings += " " + fork.back().content;
  }
  TRY(session.ask("task 1 after sub-agents", tasks[0], findings, kAgentReply));
  for (std::size_t number = 0; number < tasks.size(); number++) {
    TRY(run_steps(session, text, fmt::format("task {}", number + 1), tasks[number], 6, 3));
  }
  return static_cast<int>(tasks.size()) + 2;
}

Result<int> run_branch_script(ScenarioSession& session) {
  ScenarioText text(3);
  Conversation trunk = {{"system", "You answer in short sentences. " + text.words(120)}};
  for (int turn = 1; turn <= 7; turn++) {
    TRY(session.ask(fmt::format("turn {}", turn), trunk,
                    "Next question: " + text.words(90 + text.draw(40)), kChatReply));
  }
  const std::size_t length = trunk.size();  // system, then user and assistant by turns
  Conversation replay = first_of(trunk, length - 1);
  TRY(session.ask_again("the last turn again", replay, kChatReply));
  Conversation edit = first_of(trunk, length - 2);
  TRY(session.ask("last message edited", edit, "Rather this: " + text.words(90), kChatReply));
  TRY(session.ask("edited branch, next turn", edit, text.words(80), kChatReply));
  Conversation early = first_of(trunk, length - 8);
  TRY(session.ask("edited four turns back", early, "Or this: " + text.words(100), kChatReply));
  TRY(session.ask("early branch, next turn", early, text.words(80), kChatReply));
  Conversation first = first_of(trunk, 1);
  TRY(session.ask("first message edited", first, "Begin anew: " + text.words(100), kChatReply));
  Conversation middle = first_of(trunk, length - 5);
  TRY(session.ask_again("an earlier reply regenerated", middle, kChatReply));
  TRY(session.ask("back on the trunk", trunk, "Now on: " + text.words(80), kChatReply));
  TRY(session.ask("back on the edited branch", edit, text.words(80), kChatReply));
  TRY(session.ask("back on the early branch", early, text.words(80), kChatReply));
  Conversation whole = first_of(trunk, trunk.size() - 1);
  TRY(session.ask_again("the trunk's last turn again", whole, kChatReply));
  Conversation old = first_of(trunk, length - 1);
  TRY(session.ask_again("an old turn again", old, kChatReply));
  return 4;
}

}  // namespace reprise
