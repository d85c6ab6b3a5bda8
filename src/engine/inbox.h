// Where threads meet: notes to the engine thread, and how many requests it has not ended yet.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/sequence.h"
#include "kv/prompt_cache.h"

namespace reprise {

class Inbox {
 public:
  // At most `requests_max` requests are accepted and not ended at any time, and one submission of
  // each tenant beyond: a key whose requests fill the queue keeps nobody else out.
  explicit Inbox(std::size_t requests_max) : requests_max_(requests_max) {}

  // Requests that were submitted together; their ids follow one another.
  struct Submission {
    RequestId first;
    std::vector<GenerationRequest> requests;
    EngineClock::time_point at;
  };
  template <class Answer>
  struct Question {
    CacheScope scope;
    std::size_t most = 0;  // runs of a tree
    std::promise<Answer> answer;
  };
  // In the order in which they are to be handled.
  struct Notes {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancellations;
    bool cancel_all = false;
    std::vector<Question<PromptCache::ResetOutcome>> resets;
    std::vector<Question<PromptCacheStats>> stats;
    std::vector<Question<std::vector<CacheRun>>> trees;
    bool stop = false;

    bool is_empty() const;
  };

  // Errors: cancelled (the server is stopping), exhausted (both numbers), io (the engine failed).
  // All or none. More than `requests_max` are invalid: they never fit.
  Result<std::vector<RequestId>> submit_all(std::vector<GenerationRequest> requests);
  void cancel(RequestId id);
  void cancel_all();
  std::future<PromptCache::ResetOutcome> ask_reset(CacheScope scope);
  std::future<PromptCacheStats> ask_stats(CacheScope scope);
  std::future<std::vector<CacheRun>> ask_tree(CacheScope scope, std::size_t most);

  void close();                   // accepts nothing from now on
  void stop();                    // closes, and asks the engine thread to end
  void fail(std::string reason);  // accepts nothing from now on, and says why
  std::uint64_t refused_full() const;
  // Until no accepted request is left; false after `timeout_ms`.
  bool wait_until_none(std::optional<std::int64_t> timeout_ms);

  // Engine thread: all notes, without waiting.
  Notes take();
  // Engine thread: sleeps until there is a note, at most `timeout_ms` where given.
  void wait_for_note(std::optional<std::int64_t> timeout_ms);
  // Engine thread: requests of these tenants were told their end, each named once a request.
  void count_ended(std::span<const std::string> tenants);

 private:
  bool has_room_for(std::span<const GenerationRequest> requests) const;
  template <class Answer>
  std::future<Answer> ask(std::vector<Question<Answer>> Notes::* questions, CacheScope scope,
                          std::size_t most);

  const std::size_t requests_max_;
  mutable std::mutex mutex_;
  std::condition_variable note_arrived_, none_left_;
  // Guarded by mutex_:
  Notes notes_;
  std::size_t requests_ = 0;  // accepted and not ended
  std::map<std::string, std::size_t> requests_by_tenant_;
  std::uint64_t last_id_ = 0;
  std::uint64_t refused_full_ = 0;
  bool is_closed_ = false;
  std::string failure_;  // not empty: the engine failed
};

}  // namespace reprise
