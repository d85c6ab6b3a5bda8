// Writes the requests of a graph: clients that start, continue, edit, branch, return, regenerate,
// replay, leave, and come all at once.
#pragma once
#include <string>
#include <vector>

#include "graph/batch.h"
#include "graph/dice.h"

namespace reprise::testing {

struct WriterLimits {
  int vocabulary = 0;
  Position length_max = 0;        // prompt and reply of one request
  Position reply_max = 40;        // tokens
  Position reply_usual = 10;      // what most replies stay under
  std::int64_t together_max = 4;  // requests of a batch
  int together_usual = 55;        // percent of the batches that have several
  int scopes = 2;
  bool pins = false;
};

class GraphWriter {
 public:
  GraphWriter(Dice& dice, WriterLimits limits);

  std::vector<PlannedRequest> next_batch();
  // The same request again, alone; the newest that ended normally, if there was one.
  std::vector<PlannedRequest> replay_of_newest();
  // The replies of a batch become part of the conversations that later ones build on.
  void remember(const PlannedRequest& planned, const Outcome& outcome);
  const std::vector<CacheScope>& scopes() const { return scopes_; }

 private:
  // A conversation as it once stood; what clients come back to.
  struct State {
    Conversation conversation;
    CacheScope scope;
  };

  PlannedRequest next_request();
  PlannedRequest start();
  PlannedRequest continued(const State& state);
  PlannedRequest edited(const State& state);
  PlannedRequest branched(const State& state);
  PlannedRequest again(const PlannedRequest& earlier);
  PlannedRequest ask(std::string operation, Conversation conversation, const CacheScope& scope);

  Message user_message();
  void alter(std::vector<TokenId>& body);
  void alter_reply(std::vector<TokenId>& body);
  void fit(Conversation& conversation) const;
  void choose_sampling(GraphRequest& request);
  void arrange(std::vector<PlannedRequest>& batch);
  Moment moment_of(const std::vector<PlannedRequest>& batch, std::size_t index);

  Dice& dice_;
  const WriterLimits limits_;
  ChatFormat format_;
  std::vector<CacheScope> scopes_;
  std::vector<std::vector<TokenId>> system_prompts_;
  std::vector<State> states_;
  std::vector<PlannedRequest> asked_;  // all that ended normally
};

}  // namespace reprise::testing
