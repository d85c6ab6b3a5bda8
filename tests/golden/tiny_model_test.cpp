// Tiny checkpoints against the vendor's float32 logits (transformers): 40 tokens, windows of 8, so
// that they wrap five times. Files: tools/goldens/hf_to_gguf.py.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/runner.h"

namespace reprise {
namespace {

using kernels::KvType;
using testing::Runner;

struct Golden {
  std::string gguf;
  std::vector<TokenId> ids;
  std::vector<float> logits;  // [ids, vocabulary]
};

Golden read_golden(const std::string& name) {
  const std::string base = std::string(REPRISE_GOLDEN_DIR "/tiny/") + name;
  Golden golden{read_file(base + ".gguf", 2 << 20).value(), {}, {}};
  const JsonValue ids = parse_json(read_file(base + ".ids.json", 1 << 20).value()).value();
  for (const JsonValue& id : ids.as_array()) golden.ids.push_back(id.to_number<TokenId>());
  const std::string raw = read_file(base + ".logits.f32", 1 << 20).value();
  golden.logits.resize(raw.size() / sizeof(float));
  std::memcpy(golden.logits.data(), raw.data(), raw.size());
  return golden;
}

class TinyGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyGolden, LogitsAgreeWithTransformers) {
  const Golden golden = read_golden(GetParam());
  ThreadPool pool(1);
  const GgufFile file = GgufFile::parse(std::as_bytes(std::span(golden.gguf))).value();
  const Model model = Model::load(file, pool, {}).value();
  const auto [least, most] = std::ranges::minmax(golden.logits);
  // Rounding keys and values alone moves tiny models by this share of the logits' range.
  const std::pair<KvType, double> bounds[] = {
      {KvType::f32, 2e-5}, {KvType::f16, 1e-3}, {KvType::bf16, 1e-2}};
  for (const auto& [kv_type, bound] : bounds) {
    for (const int chunk : {0, 1, 7}) {
      Runner runner(model, {.kv_type = kv_type});
      ASSERT_EQ(golden.logits.size(), golden.ids.size() * runner.vocabulary);
      SequenceCache cache = runner.sequence();
      const std::vector<float> logits = runner.feed(cache, golden.ids, chunk);
      double worst = 0;
      for (std::size_t i = 0; i < logits.size(); i++) {
        worst = std::max(worst, static_cast<double>(std::fabs(logits[i] - golden.logits[i])));
      }
      EXPECT_LT(worst, bound * static_cast<double>(most - least))
          << "kv type " << static_cast<int>(kv_type) << ", chunk " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TinyGolden, ::testing::Values("gemma3", "gemma3_p6", "llama"));

}  // namespace
}  // namespace reprise
