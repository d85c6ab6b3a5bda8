// Tiny random models as GGUF files in memory: every family, several weight types, a small
// vocabulary with byte fallback, so that they can be run, chatted with and compared to the bit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/weight_type.h"
#include "model/model.h"
#include "support/tiny_vocabulary.h"

namespace reprise::testing {

struct TinyModelOptions {
  std::string family = "gemma3";                        // or "llama"
  kernels::WeightType type = kernels::WeightType::f32;  // of the matrices
  int hidden = 64;                                      // K-quants need 256
  int feed_forward = 128;
  int layers = 4;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 32;
  int window = 8;   // gemma3: of the windowed layers
  int pattern = 2;  // gemma3: every pattern-th layer is full
  int context_length = 4096;
  std::uint32_t seed = 1;
};

std::vector<std::byte> tiny_gguf(const TinyModelOptions& options);

// A model from a GGUF file in memory; the bytes must outlive the call.
Result<Model> load_gguf(std::span<const std::byte> bytes, ThreadPool& pool);

// The file and the model loaded from it. Loading trouble ends the test program.
struct TinyModel {
  std::vector<std::byte> bytes;
  std::unique_ptr<Model> model;
};
TinyModel make_tiny_model(const TinyModelOptions& options, ThreadPool& pool);

// `count` ordinary token ids, the same for the same seed.
std::vector<TokenId> random_tokens(int count, std::uint32_t seed);

}  // namespace reprise::testing
