// Random weights in every file format, by a fixed generator.
#include "support/tiny_model.h"

#include <cstring>
#include <random>

#include <fmt/core.h>

#include "base/check.h"
#include "kernels/math.h"
#include "support/gguf_writer.h"

namespace reprise::testing {
namespace {

using kernels::WeightType;

constexpr float kDeviation = 0.08F;  // of matrix elements

struct BlockForm {
  WeightType type;
  std::uint32_t type_id;
  // Byte offsets of the half-precision fields of a block and their values, so that random integers
  // around them give weights of about kDeviation.
  int scale_at;
  float scale;
  int minimum_at;  // -1: none
  float minimum;
};
constexpr BlockForm kForms[] = {
    {WeightType::q4_0, 2, 0, kDeviation / 4.6F, -1, 0},
    {WeightType::q4_1, 3, 0, kDeviation / 4.6F, 2, -7.5F * kDeviation / 4.6F},
    {WeightType::q5_0, 6, 0, kDeviation / 9.2F, -1, 0},
    {WeightType::q5_1, 7, 0, kDeviation / 9.2F, 2, -15.5F * kDeviation / 9.2F},
    {WeightType::q8_0, 8, 0, kDeviation / 74, -1, 0},
    {WeightType::q4_k, 12, 0, kDeviation / 150, 2, 7.5F * kDeviation / 150},
    {WeightType::q5_k, 13, 0, kDeviation / 300, 2, 15.5F * kDeviation / 300},
    {WeightType::q6_k, 14, 208, kDeviation / 1350, -1, 0},
    {WeightType::q2_k, 10, 80, kDeviation / 10, 82, 1.5F * kDeviation / 10},
    {WeightType::q3_k, 11, 108, kDeviation / 42, -1, 0},
    {WeightType::iq4_nl, 20, 0, kDeviation / 70, -1, 0},
    {WeightType::iq4_xs, 23, 0, kDeviation / 1270, -1, 0},
};

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  // Uniform in [-1, 1): the same on every standard library, unlike std::normal_distribution.
  float uniform() { return static_cast<float>(static_cast<std::int32_t>(random_())) * 0x1p-31F; }

  std::vector<float> vector(int size, float centre, float spread) {
    std::vector<float> values(static_cast<std::size_t>(size));
    for (float& value : values) value = centre + spread * uniform();
    return values;
  }

  std::vector<std::byte> blocks(const BlockForm& form, int rows, int columns) {
    const kernels::WeightTraits& traits = kernels::weight_traits(form.type);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows) *
                                 kernels::file_row_bytes(form.type, columns));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_() >> 24);
    const std::uint16_t scale = kernels::float_to_half(form.scale);
    const std::uint16_t minimum = kernels::float_to_half(form.minimum);
    for (std::size_t at = 0; at < bytes.size();
         at += static_cast<std::size_t>(traits.file_block_bytes)) {
      std::memcpy(&bytes[at + static_cast<std::size_t>(form.scale_at)], &scale, 2);
      if (form.minimum_at >= 0) {
        std::memcpy(&bytes[at + static_cast<std::size_t>(form.minimum_at)], &minimum, 2);
      }
    }
    return bytes;
  }

 private:
  std::mt19937 random_;
};

void add_matrix(GgufWriter& writer, Generator& generator, const std::string& name, WeightType type,
                int rows, int columns) {
  const std::vector<std::int64_t> dims = {columns, rows};
  for (const BlockForm& form : kForms) {
    if (form.type != type) continue;
    writer.add_tensor(name, dims, form.type_id, generator.blocks(form, rows, columns));
    return;
  }
  CHECK(type == WeightType::f32);
  writer.add_tensor(name, dims, generator.vector(rows * columns, 0, kDeviation * 1.7F));
}

void add_metadata(GgufWriter& writer, const TinyModelOptions& options) {
  const std::string& arch = options.family;
  const auto integer = [&](const char* key, int value) {
    writer.add_integer(arch + "." + key, static_cast<std::uint32_t>(value));
  };
  writer.add_text("general.architecture", arch);
  writer.add_text("general.name", "tiny " + arch);
  integer("context_length", options.context_length);
  integer("embedding_length", options.hidden);
  integer("block_count", options.layers);
  integer("feed_forward_length", options.feed_forward);
  integer("attention.head_count", options.heads);
  integer("attention.head_count_kv", options.kv_heads);
  integer("attention.key_length", options.head_dim);
  integer("attention.value_length", options.head_dim);
  writer.add_number(arch + ".attention.layer_norm_rms_epsilon", 1e-6F);
  if (arch == "gemma3") {
    integer("attention.sliding_window", options.window);
    integer("attention.sliding_window_pattern", options.pattern);
    writer.add_number("gemma3.rope.freq_base", 1e6F);
  } else {
    writer.add_number("llama.rope.freq_base", 1e4F);
    writer.add_text("tokenizer.chat_template", kTinyChatTemplate);
  }
}

}  // namespace

std::vector<std::byte> tiny_gguf(const TinyModelOptions& options) {
  GgufWriter writer;
  Generator generator(options.seed);
  const bool gemma = options.family == "gemma3";
  add_metadata(writer, options);
  add_tiny_vocabulary(writer);
  const auto matrix = [&](const std::string& name, int rows, int columns) {
    add_matrix(writer, generator, name, options.type, rows, columns);
  };
  const auto norm = [&](const std::string& name, int size) {
    writer.add_tensor(name, {size}, generator.vector(size, 1, 0.3F));
  };
  matrix("token_embd.weight", kTinyVocabulary, options.hidden);
  norm("output_norm.weight", options.hidden);
  const int query_rows = options.heads * options.head_dim;
  const int key_rows = options.kv_heads * options.head_dim;
  for (int layer = 0; layer < options.layers; layer++) {
    const std::string at = fmt::format("blk.{}.", layer);
    norm(at + "attn_norm.weight", options.hidden);
    norm(at + "ffn_norm.weight", options.hidden);
    if (gemma) {
      norm(at + "post_attention_norm.weight", options.hidden);
      norm(at + "post_ffw_norm.weight", options.hidden);
      norm(at + "attn_q_norm.weight", options.head_dim);
      norm(at + "attn_k_norm.weight", options.head_dim);
    }
    matrix(at + "attn_q.weight", query_rows, options.hidden);
    matrix(at + "attn_k.weight", key_rows, options.hidden);
    matrix(at + "attn_v.weight", key_rows, options.hidden);
    matrix(at + "attn_output.weight", options.hidden, query_rows);
    matrix(at + "ffn_gate.weight", options.feed_forward, options.hidden);
    matrix(at + "ffn_up.weight", options.feed_forward, options.hidden);
    matrix(at + "ffn_down.weight", options.hidden, options.feed_forward);
  }
  return writer.finish();
}

Result<Model> load_gguf(std::span<const std::byte> bytes, ThreadPool& pool) {
  TRY_ASSIGN(Checkpoint checkpoint, Checkpoint::from_gguf_bytes(bytes));
  return Model::load(std::make_unique<const Checkpoint>(std::move(checkpoint)), pool);
}

TinyModel make_tiny_model(const TinyModelOptions& options, ThreadPool& pool) {
  TinyModel tiny;
  tiny.bytes = tiny_gguf(options);
  Result<Model> model = load_gguf(tiny.bytes, pool);
  if (!model) fmt::print(stderr, "tiny model: {}\n", model.error().message);
  CHECK(model.has_value());
  tiny.model = std::make_unique<Model>(std::move(*model));
  return tiny;
}

std::vector<TokenId> random_tokens(int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; i++) {
    tokens.push_back(kTinyFirstByte +
                     static_cast<TokenId>(random() % (kTinyVocabulary - kTinyFirstByte)));
  }
  return tokens;
}

}  // namespace reprise::testing
