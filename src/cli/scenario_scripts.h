// What the scenarios say: chat, agent and branch, one turn after the other.
#pragma once
#include "base/error.h"
#include "cli/scenario_session.h"

namespace reprise {

// Each runs its conversations to their end and returns how many there were.
// Errors: as ScenarioSession's.
//
// chat: three conversations with one system prompt, taken in turns, to about 2,000 tokens each.
Result<int> run_chat_script(ScenarioSession& session);
// agent: tasks that share a long prompt of tool descriptions, with many short tool results; two
// sub-agents fork off the first task, which goes on afterwards.
Result<int> run_agent_script(ScenarioSession& session);
// branch: edits of late and early messages, regenerations, returns to older branches, replays.
Result<int> run_branch_script(ScenarioSession& session);

}  // namespace reprise
