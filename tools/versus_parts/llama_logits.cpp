// llama_logits MODEL IDS THREADS ROWS: llama.cpp's logits of every token of a text, as raw float32
// rows on stdout. tools/kl compiles it against the peer that `tools/versus install` built.
//
// IDS is a file of int32 token ids, one sequence. Flash attention and F16 keys and values, as
// tools/versus measures it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "llama.h"

namespace {

int stop(const char* message) {
  std::fprintf(stderr, "llama_logits: %s\n", message);
  return 1;
}

std::vector<llama_token> read_ids(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* ids = reinterpret_cast<const llama_token*>(bytes.data());
  return {ids, ids + bytes.size() / sizeof(llama_token)};
}

llama_context* make_context(llama_model* model, std::uint32_t tokens, int threads, int rows) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = tokens;
  params.n_batch = static_cast<std::uint32_t>(rows);
  params.n_ubatch = static_cast<std::uint32_t>(rows);
  params.n_threads = threads;
  params.n_threads_batch = threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  return llama_init_from_model(model, params);
}

bool decode_rows(llama_context* context, llama_batch& batch, const llama_token* ids, int count,
                 int first) {
  batch.n_tokens = count;
  for (int i = 0; i < count; i++) {
    batch.token[i] = ids[i];
    batch.pos[i] = first + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  return llama_decode(context, batch) == 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return stop("usage: llama_logits MODEL IDS THREADS ROWS");
  const int threads = std::atoi(arguments[3]);
  const int rows = std::atoi(arguments[4]);
  if (threads < 1 || rows < 1) return stop("THREADS and ROWS must be at least 1");
  const std::vector<llama_token> ids = read_ids(arguments[2]);
  llama_backend_init();
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_model* model = llama_model_load_from_file(arguments[1], llama_model_default_params());
  if (model == nullptr) return stop("the model does not load");
  const auto width = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  llama_context* context =
      make_context(model, static_cast<std::uint32_t>(ids.size()), threads, rows);
  if (context == nullptr) return stop("the context does not start");
  llama_batch batch = llama_batch_init(rows, 0, 1);
  for (std::size_t at = 0; at < ids.size(); at += static_cast<std::size_t>(rows)) {
    const int part = static_cast<int>(std::min(ids.size() - at, static_cast<std::size_t>(rows)));
    if (!decode_rows(context, batch, &ids[at], part, static_cast<int>(at))) {
      return stop("llama_decode failed");
    }
    for (int row = 0; row < part; row++) {
      const float* logits = llama_get_logits_ith(context, row);
      if (std::fwrite(logits, sizeof(float), width, stdout) != width) return 1;
    }
  }
  std::fflush(stdout);
  llama_batch_free(batch);
  llama_free(context);
  llama_model_free(model);
  return 0;
}
