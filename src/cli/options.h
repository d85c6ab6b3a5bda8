// The options of every command in one table: flag, environment variable, default, range, help.
// Parsing, --help and the README's table all come from it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "http/server.h"

namespace reprise {

struct Options {
  std::string model;
  int threads = 0;                 // 0: what the machine or container allows
  std::vector<int> thread_counts;  // all that --threads names; more than one: bench only
  std::string isa;                 // "": the best one
  std::string log_level = "info";

  std::string host = "127.0.0.1";
  int port = 8080;
  Position context_length = 0;  // 0: the model's own
  std::string alias;
  std::vector<std::string> api_keys;
  std::string api_key_file;  // "": none
  std::string cors_origin;
  int parallel = 8;
  int queue = 256;
  std::size_t body_bytes_max = std::size_t{16} << 20;
  int drain_seconds = 10;
  int request_timeout_seconds = 0;  // 0: none

  kernels::KvType kv_type = kernels::KvType::f16;
  Quantization quantize = Quantization::none;
  bool prompt_cache = true;
  std::size_t cache_bytes = 0;  // 0: chosen from free memory
  std::int64_t cache_ttl_seconds = 0;
  Position cache_min_prefix = 16;
  std::string cache_pin_max = "25%";  // of the capacity: parse_share
  CacheStore cache_store = CacheStore::reference;
  int step_ms = 250;
  int decode_ms = 100;
  int prefill_rows = 512;
  Speculation speculation = Speculation::ngram;

  std::string prompt;
  std::string system;
  Position max_tokens = 0;  // 0: until the model stops or the context is full
  double temperature = 0;
  int top_k = 0;
  double top_p = 1;
  double min_p = 0;
  std::int64_t seed = -1;  // -1: drawn
  bool chat = false;

  std::string depths = "0,512,2048,8192";
  std::string rows;   // "": bench_plan.h
  std::string batch;  // "": bench_plan.h
  int repetitions = 3;
  std::string output;    // "": a table on a terminal, else JSON
  std::string scenario;  // "": measure passes
  bool check = false;

  std::string url;
  std::string cache_salt;
  bool json = false;
  bool reset = false;
};

struct OptionSpec {
  const char* flags;     // "-m,--model"
  const char* env;       // "REPRISE_MODEL"; empty: none
  const char* value;     // placeholder: "PATH", "N"
  const char* initial;   // default as people read it
  const char* commands;  // "serve run generate bench"
  const char* help;
  // Errors: invalid_argument, naming what was got and what is allowed.
  Status (*set)(Options& options, std::string_view text);
  // The one command, if any, to which the option means something else, and what.
  struct Other {
    const char* command = "";
    const char* help = "";
  } other = {};

  bool belongs_to(std::string_view command) const;
  const char* help_for(std::string_view command) const;
};

std::span<const OptionSpec> option_table();

struct CommandSpec {
  const char* name;
  const char* help;
  int (*run)(const Options& options);  // returns the exit code
  bool is_for_developers = false;      // not listed by --help
};
std::span<const CommandSpec> command_table();

struct ParsedCommand {
  const CommandSpec* command = nullptr;  // null: `text` was all that was asked for
  Options options;
  std::string text;  // help or version
};

// Errors: invalid_argument; an unknown flag or command comes with the nearest one we know.
Result<ParsedCommand> parse_command_line(const std::vector<std::string>& arguments);

// The option table as Markdown, for the README.
std::string options_markdown();

// "4096", "512M", "2GiB", "25%" (of `whole`) -> bytes. Errors: invalid_argument.
Result<std::size_t> parse_bytes(std::string_view text, std::size_t whole);

// The same, and "0", "0%" or "off" for nothing.
Result<std::size_t> parse_share(std::string_view text, std::size_t whole);

}  // namespace reprise
