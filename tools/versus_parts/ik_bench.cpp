// ik_bench MODEL THREADS REPACK prefill|decode COUNT REPETITIONS: ik_llama.cpp's speed, as its
// llama-bench measures it: {"samples_ts": [tokens a second of each repetition]}.
//
// Written because the wheel holds libraries only, and building llama-bench takes long. Linked
// against libllama.so; LD_LIBRARY_PATH chooses which (the AVX2 wheel's or this machine's own).
// Settings are llama-bench's: batches of 2048 in parts of 512, flash attention, F16 keys and
// values, random tokens; REPACK 1 is its -rtr. prefill: COUNT tokens from an empty cache; decode:
// 32 single tokens behind COUNT, the time of those alone. Unlike there, one repetition of the same
// shape warms up.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "llama.h"

namespace {

constexpr int kBatch = 2048;
constexpr int kPart = 512;
constexpr int kGenerated = 32;

struct Session {
  llama_context* context;
  const llama_model* model;
  bool failed = false;

  llama_token random_token() const { return std::rand() % llama_n_vocab(model); }

  void decode(std::vector<llama_token>& tokens, int position) {
    const auto count = static_cast<int>(tokens.size());
    failed |= llama_decode(context, llama_batch_get_one(tokens.data(), count, position, 0)) != 0;
  }

  void prefill(int count) {
    for (int done = 0; done < count; done += kBatch) {
      std::vector<llama_token> tokens(static_cast<std::size_t>(std::min(kBatch, count - done)));
      for (llama_token& token : tokens) token = random_token();
      if (done == 0 && llama_add_bos_token(model) == 1) tokens[0] = llama_token_bos(model);
      decode(tokens, done);
    }
    llama_synchronize(context);
  }

  void generate(int depth) {
    for (int i = 0; i < kGenerated; i++) {
      std::vector<llama_token> token{random_token()};
      decode(token, depth + i);
      llama_synchronize(context);
    }
  }

  // Tokens a second of one repetition.
  double repeat(bool is_decode, int count) {
    using Clock = std::chrono::steady_clock;
    llama_kv_cache_clear(context);
    if (is_decode) prefill(count);
    const Clock::time_point begin = Clock::now();
    if (is_decode) {
      generate(count);
    } else {
      prefill(count);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return (is_decode ? kGenerated : count) / seconds;
  }
};

llama_model* load(const char* path, bool repack) {
  llama_model_params params = llama_model_default_params();
  params.repack_tensors = repack;
  params.mla = 3;
  return llama_model_load_from_file(path, params);
}

llama_context* make_context(llama_model* model, int tokens, int threads) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(tokens);
  params.n_batch = kBatch;
  params.n_ubatch = kPart;
  params.type_k = GGML_TYPE_F16;
  params.type_v = GGML_TYPE_F16;
  params.flash_attn = true;
  params.graph_reuse = true;
  params.fused_moe_up_gate = true;
  params.fused_up_gate = true;
  params.n_threads = static_cast<std::uint32_t>(threads);
  params.n_threads_batch = static_cast<std::uint32_t>(threads);
  return llama_init_from_model(model, params);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    std::fprintf(stderr, "usage: ik_bench MODEL THREADS REPACK prefill|decode COUNT REPETITIONS\n");
    return 2;
  }
  const bool is_decode = std::strcmp(arguments[4], "decode") == 0;
  const int tokens = std::atoi(arguments[5]);
  const int repetitions = std::atoi(arguments[6]);
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = load(arguments[1], std::atoi(arguments[3]) != 0);
  llama_context* context = model == nullptr
                               ? nullptr
                               : make_context(model, tokens + kGenerated, std::atoi(arguments[2]));
  if (context == nullptr) {
    std::fprintf(stderr, "ik_bench: %s does not load\n", arguments[1]);
    return 1;
  }
  Session session{context, model};
  session.repeat(is_decode, tokens);  // warm-up
  std::printf("{\"samples_ts\": [");
  for (int i = 0; i < repetitions; i++) {
    std::printf("%s%.3f", i == 0 ? "" : ", ", session.repeat(is_decode, tokens));
  }
  std::printf("]}\n");
  llama_free(context);
  llama_free_model(model);
  if (session.failed) std::fprintf(stderr, "ik_bench: llama_decode failed\n");
  return session.failed ? 1 : 0;
}
