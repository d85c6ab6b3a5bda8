// A sink that writes to the terminal, on the engine thread, and wakes the waiting command.
#include "cli/terminal_reply.h"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <random>
#include <string>

#include <fmt/core.h>

#include "text/detokenizer.h"

namespace reprise {
namespace {

// Set by the signal handler: the one thing a handler may touch.
volatile std::sig_atomic_t interrupted = 0;
void note_interrupt(int) {
  interrupted = 1;
}

// Lives on the waiting command's stack; the sink refers to it.
struct Outcome {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  TerminalReply reply;
};

class TerminalSink : public SequenceSink {
 public:
  TerminalSink(const Tokenizer& tokenizer, Outcome& outcome)
      : detokenizer_(tokenizer), outcome_(&outcome) {}

  Verdict on_token(const SampledToken& token) override {
    write(detokenizer_.push(token.id));
    return interrupted != 0 ? Verdict::cancel : Verdict::go_on;
  }

  void on_end(const SequenceEnd& end) override {
    write(detokenizer_.finish());
    const std::lock_guard lock(outcome_->mutex);
    outcome_->reply.end = end;
    outcome_->done = true;
    outcome_->ended.notify_all();
  }

 private:
  void write(const std::string& piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
    outcome_->reply.text += piece;
  }

  Detokenizer detokenizer_;
  Outcome* outcome_;
};

GenerationRequest make_request(Stack& stack, const Options& options, PreparedPrompt prompt) {
  GenerationRequest request;
  const Position room =
      stack.engine->options().context_length - static_cast<Position>(prompt.ids.size());
  request.max_tokens = options.max_tokens > 0 ? options.max_tokens : room;
  request.prompt = std::move(prompt.ids);
  request.history_boundary = prompt.history_boundary;
  request.turn_ends = std::move(prompt.turn_ends);
  request.sampling = {
      options.temperature, options.top_k, options.top_p, options.min_p,
      options.seed >= 0 ? static_cast<std::uint64_t>(options.seed) : std::random_device{}()};
  request.stop_ids = stack.bundle->stop_ids();
  request.use_cache = options.prompt_cache;
  return request;
}

}  // namespace

Result<TerminalReply> print_reply(Stack& stack, const Options& options, PreparedPrompt prompt) {
  const auto context_length = static_cast<std::size_t>(stack.engine->options().context_length);
  if (prompt.ids.size() >= context_length) {
    return fail(Errc::invalid_argument,
                fmt::format("the prompt has {} tokens, but the context length is {} tokens and the "
                            "reply needs at least 1",
                            prompt.ids.size(), context_length),
                "--ctx-size");
  }
  Outcome outcome;
  GenerationRequest request = make_request(stack, options, std::move(prompt));
  request.sink = std::make_unique<TerminalSink>(stack.bundle->tokenizer(), outcome);
  interrupted = 0;
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = note_interrupt;
  ::sigaction(SIGINT, &action, &before);
  const Result<RequestId> id = stack.engine->submit(std::move(request));
  if (id) {
    std::unique_lock lock(outcome.mutex);
    while (!outcome.done) {
      outcome.ended.wait_for(lock, std::chrono::milliseconds(100));
      if (interrupted != 0) stack.engine->cancel(*id);
    }
  }
  ::sigaction(SIGINT, &before, nullptr);
  if (!id) return std::unexpected(id.error());
  return std::move(outcome.reply);
}

void print_summary(const SequenceEnd& end) {
  const double seconds = end.timings.decode_ms / 1000;
  const auto tokens = static_cast<double>(end.usage.completion_tokens);
  const std::string line = fmt::format(
      "[{} prompt tokens, {} cached, first token after {:.0f} ms; {} tokens at {:.1f} tokens/s]\n",
      end.usage.prompt_tokens, end.usage.cached_tokens, end.timings.prefill_ms,
      end.usage.completion_tokens, seconds > 0 ? tokens / seconds : 0.0);
  std::fputs(line.c_str(), stderr);  // the answer stands, whether this can be written or not
}

}  // namespace reprise
