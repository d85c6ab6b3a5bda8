// A sink that writes to the terminal, on the engine thread, and wakes the waiting command.
#include "cli/terminal_reply.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "cli/counted.h"
#include "cli/progress_line.h"
#include "cli/standard_output.h"
#include "text/detokenizer.h"
#include "text/reply_parser.h"

namespace reprise {
namespace {

constexpr std::chrono::milliseconds kPatience(500);  // before a long prompt is worth a line

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
  TerminalSink(const Tokenizer& tokenizer, ReplyFormat format, Thoughts thoughts, Outcome& outcome)
      : tokenizer_(&tokenizer),
        detokenizer_(tokenizer),
        reads_marks_(format != ReplyFormat::plain),
        parser_(make_reply_parser(format, {.in_reasoning = thoughts == Thoughts::open})),
        outcome_(&outcome),
        progress_("reading the prompt", "tokens", ProgressLine::Log::silent, kPatience) {}

  void on_prefill(Position done, Position, Position total) override {
    progress_.show(static_cast<std::size_t>(done), static_cast<std::size_t>(total));
  }
  void on_prompt_done(const Usage& usage) override {
    static_cast<void>(usage);
    progress_.clear();
  }

  Verdict on_token(const SampledToken& token) override {
    if (reads_marks_ && tokenizer_->is_special(token.id)) {
      parser_->push(detokenizer_.finish(), parts_);
      parser_->push_special(tokenizer_->token_bytes(token.id), parts_);
    } else {
      parser_->push(detokenizer_.push(token.id), parts_);
    }
    write_parts();
    return interrupted != 0 ? Verdict::cancel : Verdict::go_on;
  }

  void on_end(const SequenceEnd& end) override {
    progress_.clear();  // a prompt may end half-way
    parser_->push(detokenizer_.finish(), parts_);
    parser_->finish(parts_);
    write_parts();
    dim(false);
    const std::lock_guard lock(outcome_->mutex);
    outcome_->reply.end = end;
    outcome_->done = true;
    outcome_->ended.notify_all();
  }

 private:
  void write_parts() {
    for (const ReplyPart& part : parts_) {
      const bool is_thought = part.kind == ReplyPart::Kind::reasoning;
      dim(is_thought);
      std::fwrite(part.text.data(), 1, part.text.size(), stdout);
      (is_thought ? outcome_->reply.reasoning : outcome_->reply.text) += part.text;
    }
    parts_.clear();
    write_output({});
  }
  // Between thoughts and answer: an empty line, and another brightness where there is one.
  void dim(bool wanted) {
    if (wanted == is_dim_) return;
    is_dim_ = wanted;
    if (is_terminal_) std::fputs(wanted ? "\x1b[2m" : "\x1b[0m", stdout);
    if (!wanted) std::fputs("\n\n", stdout);
  }

  const Tokenizer* tokenizer_;
  Detokenizer detokenizer_;
  bool reads_marks_;
  std::unique_ptr<ReplyParser> parser_;
  std::vector<ReplyPart> parts_;
  Outcome* outcome_;
  bool is_dim_ = false;
  bool is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  ProgressLine progress_;
};

GenerationRequest make_request(Stack& stack, const Options& options, PreparedPrompt prompt) {
  GenerationRequest request;
  const Position room =
      stack.engine->options().context_length - static_cast<Position>(prompt.ids.size());
  request.max_tokens = options.max_tokens > 0 ? options.max_tokens : room;
  request.prompt = std::move(prompt.ids);
  request.history_boundary = prompt.history_boundary;
  request.turn_ends = std::move(prompt.turn_ends);
  request.sampling.temperature = options.temperature;
  request.sampling.top_k = options.top_k;
  request.sampling.top_p = options.top_p;
  request.sampling.min_p = options.min_p;
  request.sampling.seed =
      options.seed >= 0 ? static_cast<std::uint64_t>(options.seed) : std::random_device{}();
  request.stop_ids = stack.bundle->stop_ids();
  request.use_cache = options.prompt_cache;
  return request;
}

}  // namespace

Result<TerminalReply> print_reply(Stack& stack, const Options& options, PreparedPrompt prompt,
                                  ReplyFormat format) {
  const auto context_length = static_cast<std::size_t>(stack.engine->options().context_length);
  if (prompt.ids.size() >= context_length) {
    return fail(Errc::invalid_argument,
                fmt::format("the prompt has {} tokens, but the context length is {} tokens and the "
                            "reply needs at least 1",
                            prompt.ids.size(), context_length),
                "--ctx-size");
  }
  Outcome outcome;
  const Thoughts thoughts = prompt.thoughts;
  GenerationRequest request = make_request(stack, options, std::move(prompt));
  request.sink =
      std::make_unique<TerminalSink>(stack.bundle->tokenizer(), format, thoughts, outcome);
  interrupted = 0;
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;  // stdio would take an interrupted write for a failed one
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

std::string summary_line(const Options& options, const SequenceEnd& end) {
  const Usage& usage = end.usage;
  std::string line = fmt::format("[{}, {} cached, first token after {:.0f} ms; {}",
                                 counted(usage.prompt_tokens, "prompt token"), usage.cached_tokens,
                                 end.timings.prefill_ms, counted(usage.completion_tokens, "token"));
  if (usage.completion_tokens > 1 && end.timings.decode_ms > 0) {
    line += fmt::format(" at {:.1f} tokens/s",
                        1000 * (usage.completion_tokens - 1) / end.timings.decode_ms);
  }
  if (end.reason == FinishReason::cancelled) line += "; stopped";
  if (end.reason == FinishReason::length) {
    line += usage.completion_tokens == options.max_tokens
                ? fmt::format("; cut at {} by -n", counted(options.max_tokens, "token"))
                : std::string("; cut: the context is full");
  }
  return line + "]\n";
}

void print_summary(const Options& options, const SequenceEnd& end) {
  write_stderr(
      summary_line(options, end));  // the answer stands, whether this can be written or not
}

}  // namespace reprise
