// The table itself. Order = order in --help and in the README.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <fmt/core.h>

#include "api/api_keys.h"
#include "api/openai_fields.h"
#include "base/check.h"
#include "base/machine.h"
#include "cli/options.h"

namespace reprise {
namespace {

std::unexpected<Error> refuse(std::string_view got, std::string_view expected) {
  return fail(Errc::invalid_argument, fmt::format("got \"{}\", expected {}", got, expected));
}

template <class T>
Status set_number(T& target, std::string_view text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || !(value >= low) || !(value <= high)) {
    return refuse(text, fmt::format("a number from {} to {}", low, high));
  }
  target = value;
  return {};
}

Status set_switch(bool& target, std::string_view text) {
  if (text != "on" && text != "off" && text != "true" && text != "false") {
    return refuse(text, "on or off");
  }
  target = text == "on" || text == "true";
  return {};
}

Status set_text(std::string& target, std::string_view text) {
  target = text;
  return {};
}

Status set_kv_type(kernels::KvType& target, std::string_view text) {
  if (text == "f16")
    target = kernels::KvType::f16;
  else if (text == "bf16")
    target = kernels::KvType::bf16;
  else if (text == "f32")
    target = kernels::KvType::f32;
  else if (text == "int8")
    target = kernels::KvType::int8;
  else
    return refuse(text, "f16, bf16, f32 or int8");
  return {};
}

Status set_quantization(Quantization& target, std::string_view text) {
  if (text == "none")
    target = Quantization::none;
  else if (text == "q8_0")
    target = Quantization::q8_0;
  else if (text == "q4")
    target = Quantization::q4;
  else
    return refuse(text, "none, q8_0 or q4");
  return {};
}

Status set_speculation(Speculation& target, std::string_view text) {
  if (text == "ngram")
    target = Speculation::ngram;
  else if (text == "off")
    target = Speculation::off;
  else
    return refuse(text, "ngram or off");
  return {};
}

Status set_cache_store(CacheStore& target, std::string_view text) {
  if (text == "reference")
    target = CacheStore::reference;
  else if (text == "materialised")
    target = CacheStore::materialised;
  else
    return refuse(text, "reference or materialised");
  return {};
}

Status set_log_level(std::string& target, std::string_view text) {
  constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error", "off"};
  if (std::ranges::find(kLevels, text) == std::end(kLevels)) {
    return refuse(text, "debug, info, warn, error or off");
  }
  return set_text(target, text);
}

Status set_scenario(std::string& target, std::string_view text) {
  constexpr std::string_view kScenarios[] = {"chat", "agent", "branch", "storm"};
  if (std::ranges::find(kScenarios, text) == std::end(kScenarios)) {
    return refuse(text, "chat, agent, branch or storm");
  }
  return set_text(target, text);
}

// No error repeats a key: it would stand in the journal.
Status add_keys(std::vector<std::string>& keys, std::string_view text) {
  for (std::size_t at = 0, number = 1; at <= text.size(); number++) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view key = text.substr(at, end - at);
    if (!is_key(key)) {
      return fail(Errc::invalid_argument,
                  fmt::format("key {} of the comma-separated ones {}, expected printable ASCII "
                              "without spaces",
                              number, key.empty() ? "is empty" : "has other bytes"));
    }
    keys.emplace_back(key);
    at = end + 1;
  }
  return {};
}

// As browsers write it: another one would never be equal to what they send.
Status set_origin(std::string& target, std::string_view text) {
  const std::size_t scheme = text.find("://");
  const bool has_host = scheme != std::string_view::npos && scheme > 0 && scheme + 3 < text.size();
  const bool is_origin =
      has_host && text.find_first_of("/?# ", scheme + 3) == std::string_view::npos;
  if (text != "*" && text != "null" && !is_origin) {
    return refuse(text, "*, null (pages from files) or an origin such as https://example.com");
  }
  return set_text(target, text);
}

Status set_output(std::string& target, std::string_view text) {
  if (text != "json" && text != "table") return refuse(text, "json or table");
  return set_text(target, text);
}

Status set_threads(Options& options, std::string_view text) {
  options.thread_counts.clear();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    TRY(set_number(options.threads, text.substr(at, end - at), 1, 1024));
    if (std::ranges::find(options.thread_counts, options.threads) == options.thread_counts.end()) {
      options.thread_counts.push_back(options.threads);
    }
    at = end + 1;
  }
  options.threads = options.thread_counts.front();
  return {};
}

// Bounds and name are those of the API's field.
template <class T>
Status set_sampling(T& target, std::string_view name, std::string_view text) {
  const Limits limits;
  const auto fields = sampling_fields();
  const auto field = std::ranges::find(fields, name, &Field<SamplingParams>::name);
  CHECK(field != fields.end());
  return set_number(target, text, static_cast<T>(field->low.of(limits)),
                    static_cast<T>(field->high.of(limits)));
}

constexpr const char* kAll = "serve run generate bench inspect";
constexpr const char* kModel = "serve run generate bench";
constexpr const char* kSample = "run generate";
constexpr Position kPositionMax = 1 << 30;

constexpr std::array kOptions = {
    OptionSpec{"-m,--model", "REPRISE_MODEL", "PATH", "", kAll, "GGUF file or folder of the model",
               [](Options& o, std::string_view t) { return set_text(o.model, t); }},
    OptionSpec{"--host",
               "REPRISE_HOST",
               "ADDRESS",
               "127.0.0.1",
               "serve cache",
               "address to listen on",
               [](Options& o, std::string_view t) -> Status {
                 // An empty name would mean every address of the machine.
                 if (t.empty()) return refuse(t, "an address or a name");
                 return set_text(o.host, t);
               },
               {"cache", "address of the running server"}},
    OptionSpec{"--port",
               "REPRISE_PORT",
               "N",
               "8080",
               "serve cache",
               "port to listen on; 0: the system chooses",
               [](Options& o, std::string_view t) { return set_number(o.port, t, 0, 65535); },
               {"cache", "port of the running server"}},
    OptionSpec{"-t,--threads",
               "REPRISE_THREADS",
               "N",
               "CPUs allowed",
               kModel,
               "compute threads, the engine's own included",
               [](Options& o, std::string_view t) { return set_threads(o, t); },
               {"bench", "compute threads; a list (1,2): measure with each"}},
    OptionSpec{"-c,--ctx-size", "REPRISE_CTX_SIZE", "N", "the model's", kModel,
               "tokens of one sequence, prompt and completion together",
               [](Options& o, std::string_view t) {
                 return set_number<Position>(o.context_length, t, 1, kPositionMax);
               }},
    OptionSpec{"-a,--alias", "REPRISE_ALIAS", "NAME", "file name", "serve",
               "model id in /v1/models and in replies",
               [](Options& o, std::string_view t) { return set_text(o.alias, t); }},
    OptionSpec{"--api-key",
               "REPRISE_API_KEY",
               "KEY",
               "none needed",
               "serve cache",
               "key that requests must carry (Authorization: Bearer); several: comma-separated",
               [](Options& o, std::string_view t) { return add_keys(o.api_keys, t); },
               {"cache", "key to send; of several the first"}},
    OptionSpec{"--api-key-file", "REPRISE_API_KEY_FILE", "PATH", "", "serve",
               "more keys, one a line: NAME KEY or NAME KEY admin; read again on SIGHUP",
               [](Options& o, std::string_view t) -> Status {
                 // An empty name would leave the server open to everybody.
                 if (t.empty()) return refuse(t, "the path of a file");
                 return set_text(o.api_key_file, t);
               }},
    OptionSpec{"--cors-origin", "REPRISE_CORS_ORIGIN", "ORIGIN", "off", "serve",
               "origin that browsers may call from; * for any",
               [](Options& o, std::string_view t) { return set_origin(o.cors_origin, t); }},
    OptionSpec{"--parallel", "REPRISE_PARALLEL", "N", "8", "serve", "sequences running at once",
               [](Options& o, std::string_view t) { return set_number(o.parallel, t, 1, 256); }},
    OptionSpec{"--max-queue", "REPRISE_MAX_QUEUE", "N", "256", "serve",
               "requests that may wait; more get 429",
               [](Options& o, std::string_view t) { return set_number(o.queue, t, 1, 10'000); }},
    OptionSpec{"--max-body", "REPRISE_MAX_BODY", "BYTES", "16MiB", "serve", "largest request body",
               [](Options& o, std::string_view t) -> Status {
                 TRY_ASSIGN(o.body_bytes_max, parse_bytes(t, memory_limit_bytes()));
                 return {};
               }},
    OptionSpec{"--request-timeout", "REPRISE_REQUEST_TIMEOUT", "SECONDS", "0", "serve",
               "longest time from a request's acceptance to its end; 0: no limit",
               [](Options& o, std::string_view t) {
                 return set_number(o.request_timeout_seconds, t, 0, 86'400);
               }},
    OptionSpec{
        "--drain-timeout", "REPRISE_DRAIN_TIMEOUT", "SECONDS", "10", "serve",
        "how long running replies may finish after SIGTERM or SIGINT",
        [](Options& o, std::string_view t) { return set_number(o.drain_seconds, t, 0, 86'400); }},
    OptionSpec{"--kv-type", "REPRISE_KV_TYPE", "TYPE", "f16", kModel,
               "number format of keys and values: f16, bf16, f32 or int8 (without prompt cache)",
               [](Options& o, std::string_view t) { return set_kv_type(o.kv_type, t); }},
    OptionSpec{"--quantize", "REPRISE_QUANTIZE", "TYPE", "none", kModel,
               "what F32, F16 and BF16 matrices become on load: none, q8_0 or q4 (MLX affine)",
               [](Options& o, std::string_view t) { return set_quantization(o.quantize, t); }},
    OptionSpec{"--prompt-cache", "REPRISE_PROMPT_CACHE", "on|off", "on", "serve run",
               "reuse the keys and values of earlier requests; never changes an answer",
               [](Options& o, std::string_view t) {
                 return set_switch(o.prompt_cache, t.empty() ? "on" : t);
               }},
    OptionSpec{"--prompt-cache-capacity", "REPRISE_PROMPT_CACHE_CAPACITY", "BYTES",
               "half of free memory", "serve run",
               "memory for keys and values, running and cached together: 2GiB, 512M or 25%",
               [](Options& o, std::string_view t) -> Status {
                 TRY_ASSIGN(o.cache_bytes, parse_bytes(t, memory_limit_bytes()));
                 return {};
               }},
    OptionSpec{"--prompt-cache-ttl", "REPRISE_PROMPT_CACHE_TTL", "SECONDS", "0", "serve",
               "drop what was not used for this long; 0: never",
               [](Options& o, std::string_view t) {
                 return set_number<std::int64_t>(o.cache_ttl_seconds, t, 0, 1'000'000'000);
               }},
    OptionSpec{"--prompt-cache-min-prefix", "REPRISE_PROMPT_CACHE_MIN_PREFIX", "TOKENS", "16",
               "serve", "shorter common prefixes are not reused",
               [](Options& o, std::string_view t) {
                 return set_number<Position>(o.cache_min_prefix, t, 1, kPositionMax);
               }},
    OptionSpec{"--cache-pin-max", "REPRISE_CACHE_PIN_MAX", "BYTES", "25%", "serve",
               "what cache_pin_seconds may hold for one API key: bytes, or % of the capacity",
               [](Options& o, std::string_view t) -> Status {
                 TRY(parse_share(t, 0));
                 return set_text(o.cache_pin_max, t);
               }},
    OptionSpec{
        "--cache-store", "REPRISE_CACHE_STORE", "FORM", "reference", "serve",
        "reference, or materialised: every hit goes through the snapshot contract (for tests)",
        [](Options& o, std::string_view t) { return set_cache_store(o.cache_store, t); }},
    OptionSpec{"--step-ms", "REPRISE_STEP_MS", "MS", "250", "serve",
               "longest step to plan: running streams wait no longer for a prefill",
               [](Options& o, std::string_view t) { return set_number(o.step_ms, t, 1, 60'000); }},
    OptionSpec{
        "--decode-ms", "REPRISE_DECODE_MS", "MS", "100", "serve",
        "a step with running streams takes at most",
        [](Options& o, std::string_view t) { return set_number(o.decode_ms, t, 1, 60'000); }},
    OptionSpec{
        "--prefill-rows", "REPRISE_PREFILL_ROWS", "N", "512", "serve run generate",
        "most prompt tokens of one step",
        [](Options& o, std::string_view t) { return set_number(o.prefill_rows, t, 1, 4096); }},
    OptionSpec{
        "--speculation", "REPRISE_SPECULATION", "KIND", "ngram", "serve run generate",
        "ngram: where it pays, forward what followed the same tokens before, too; never changes "
        "an answer; or off",
        [](Options& o, std::string_view t) { return set_speculation(o.speculation, t); }},
    OptionSpec{"-p,--prompt", "", "TEXT", "", "generate", "text to continue",
               [](Options& o, std::string_view t) { return set_text(o.prompt, t); }},
    OptionSpec{
        "--chat", "", "on|off", "off", "generate", "treat the prompt as a chat message",
        [](Options& o, std::string_view t) { return set_switch(o.chat, t.empty() ? "on" : t); }},
    OptionSpec{"--system", "", "TEXT", "", "run", "system message of the conversation",
               [](Options& o, std::string_view t) { return set_text(o.system, t); }},
    OptionSpec{"-n,--max-tokens", "", "N", "until it ends", kSample, "most tokens of one reply",
               [](Options& o, std::string_view t) {
                 return set_number<Position>(o.max_tokens, t, 1, kPositionMax);
               }},
    OptionSpec{"--temperature", "", "X", "0", kSample, "0: always the likeliest token",
               [](Options& o, std::string_view t) {
                 return set_sampling(o.temperature, "temperature", t);
               }},
    OptionSpec{"--top-k", "", "N", "0", kSample, "draw from the N likeliest only; 0: all",
               [](Options& o, std::string_view t) { return set_sampling(o.top_k, "top_k", t); }},
    OptionSpec{"--top-p", "", "X", "1", kSample, "draw from the likeliest that sum to X",
               [](Options& o, std::string_view t) { return set_sampling(o.top_p, "top_p", t); }},
    OptionSpec{"--min-p", "", "X", "0", kSample, "drop tokens below X times the likeliest",
               [](Options& o, std::string_view t) { return set_sampling(o.min_p, "min_p", t); }},
    OptionSpec{"--seed", "", "N", "drawn", kSample, "makes the draw repeatable",
               [](Options& o, std::string_view t) {
                 return set_number<std::int64_t>(o.seed, t, 0,
                                                 std::numeric_limits<std::int64_t>::max());
               }},
    OptionSpec{
        "--scenario", "", "NAME", "", "bench",
        "conversations with a server of its own, or the one at --url: chat, agent, branch or "
        "storm",
        [](Options& o, std::string_view t) { return set_scenario(o.scenario, t); }},
    OptionSpec{
        "--check", "", "on|off", "off", "bench", "with --scenario: exit 1 when a bar is missed",
        [](Options& o, std::string_view t) { return set_switch(o.check, t.empty() ? "on" : t); }},
    OptionSpec{"--depths", "", "LIST", "0,512,2048,8192", "bench",
               "tokens in the cache before measuring",
               [](Options& o, std::string_view t) { return set_text(o.depths, t); }},
    OptionSpec{"--rows", "", "LIST", "512", "bench",
               "rows of a prefill pass; 1: decoding; without --batch nothing else is measured",
               [](Options& o, std::string_view t) { return set_text(o.rows, t); }},
    OptionSpec{"--batch", "", "LIST", "1,2,4,8", "bench",
               "sequences that decode at once; without --rows nothing else is measured",
               [](Options& o, std::string_view t) { return set_text(o.batch, t); }},
    OptionSpec{"-o,--output", "", "FORM", "table on a terminal", "bench",
               "json or table, on standard output",
               [](Options& o, std::string_view t) { return set_output(o.output, t); }},
    OptionSpec{
        "--repetitions", "", "N", "3", "bench", "samples of each; the median is reported",
        [](Options& o, std::string_view t) { return set_number(o.repetitions, t, 1, 1000); }},
    OptionSpec{"--url",
               "",
               "URL",
               "",
               "bench cache",
               "a running server, http://HOST:PORT, for --scenario",
               [](Options& o, std::string_view t) { return set_text(o.url, t); },
               {"cache", "a running server, http://HOST:PORT; in place of --host and --port"}},
    OptionSpec{"--cache-salt", "", "TEXT", "", "cache",
               "look at the entries of requests with this cache_salt",
               [](Options& o, std::string_view t) { return set_text(o.cache_salt, t); }},
    OptionSpec{
        "--json", "", "on|off", "off", "cache", "print the server's own JSON instead of a tree",
        [](Options& o, std::string_view t) { return set_switch(o.json, t.empty() ? "on" : t); }},
    OptionSpec{
        "--reset", "", "on|off", "off", "cache", "drop the entries instead of showing them",
        [](Options& o, std::string_view t) { return set_switch(o.reset, t.empty() ? "on" : t); }},
    OptionSpec{"--isa", "REPRISE_FORCE_ISA", "NAME", "the best", kModel,
               "kernels to use: scalar, avx2 or avx512 (the answers are the same)",
               [](Options& o, std::string_view t) { return set_text(o.isa, t); }},
    OptionSpec{"--log-level", "REPRISE_LOG_LEVEL", "LEVEL", "info", kAll,
               "debug, info, warn, error or off",
               [](Options& o, std::string_view t) { return set_log_level(o.log_level, t); }},
};

}  // namespace

std::span<const OptionSpec> option_table() {
  return kOptions;
}

Result<std::size_t> parse_bytes(std::string_view text, std::size_t whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double factor = 0;
  if (unit.empty() || unit == "B")
    factor = 1;
  else if (unit == "K" || unit == "KiB")
    factor = 1024;
  else if (unit == "M" || unit == "MiB")
    factor = 1024.0 * 1024;
  else if (unit == "G" || unit == "GiB")
    factor = 1024.0 * 1024 * 1024;
  else if (unit == "%")
    factor = static_cast<double>(whole) / 100;
  const double bytes = value * factor;
  if (unit == "%" && value > 100) return refuse(text, "at most 100 %");
  if (error != std::errc{} || !(bytes >= 1) || bytes > 1e18) {
    return refuse(text, "a number with B, K, M, G, KiB, MiB, GiB or %");
  }
  return static_cast<std::size_t>(bytes);
}

Result<std::size_t> parse_share(std::string_view text, std::size_t whole) {
  if (text == "0" || text == "0%" || text == "off") return std::size_t{0};
  if (!text.ends_with('%')) return parse_bytes(text, whole);
  // The share of a small whole may round to nothing; its text is right all the same.
  constexpr std::size_t kWhole = std::size_t{1} << 50;
  TRY_ASSIGN(const std::size_t share, parse_bytes(text, kWhole));
  return static_cast<std::size_t>(static_cast<double>(whole) * static_cast<double>(share) /
                                  static_cast<double>(kWhole));
}

}  // namespace reprise
