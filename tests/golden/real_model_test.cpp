// Gemma 3 270M against float32: the same weights dequantised and run in float32, which in turn must
// agree with transformers. Needs the real file: REPRISE_MODEL_GEMMA3.
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "base/machine.h"
#include "support/gguf_writer.h"
#include "support/runner.h"

namespace reprise {
namespace {

using testing::GgufWriter;
using testing::Runner;

// Largest mean KL divergence that int8 activations in groups of 32 with F16 KV may cause (emulated
// in float32: 0.0019; groups of 64: 0.0034).
constexpr double kMeanKlMax = 0.004;

// Where the reference's two best logits are further apart than this, the quantised run must choose
// the same token. For small logit errors e, KL is the probability-weighted variance of e over 2, so
// e has a standard deviation of about sqrt(2 KL); the difference of two logits sqrt(2) times that;
// six of them.
const double kMarginBound = 6 * std::sqrt(2.0) * std::sqrt(2 * kMeanKlMax);

// A copy of the file with every matrix as F32. The kernels then multiply floats with floats.
std::vector<std::byte> dequantised(const GgufFile& file) {
  GgufWriter writer;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("tokenizer.")) continue;
    const std::string name(key);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      writer.add_integer(name, static_cast<std::uint32_t>(*integer));
    } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
      writer.add_integer(name, static_cast<std::uint32_t>(*natural));
    } else if (const auto* number = std::get_if<double>(&value)) {
      writer.add_number(name, static_cast<float>(*number));
    } else if (const auto* text = std::get_if<std::string_view>(&value)) {
      writer.add_text(name, *text);
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.dims.size() == 1) {
      writer.add_tensor(tensor.name, tensor.dims, 0, tensor.bytes);
      continue;
    }
    const int columns = static_cast<int>(tensor.dims[0]);
    const int rows = static_cast<int>(tensor.dims[1]);
    const int panels = (rows + kernels::kPanelRows - 1) / kernels::kPanelRows;
    MemoryBlock packed(static_cast<std::size_t>(panels) *
                       kernels::panel_bytes(*tensor.type, columns));
    kernels::pack_panels(*tensor.type, tensor.bytes.data(), rows, columns, 0, panels,
                         packed.data());
    const kernels::PanelMatrix matrix{*tensor.type, rows, columns, packed.data()};
    std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    for (int row = 0; row < rows; row++) {
      kernels::unpack_row(
          matrix, row, &values[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns)]);
    }
    writer.add_tensor(tensor.name, tensor.dims, values);
  }
  return writer.finish();
}

struct Prompt {
  std::string name;
  std::vector<TokenId> ids, generated;
  std::vector<std::vector<TokenId>> top_ids;  // per generated token
  std::vector<std::vector<float>> top_logits;
};

template <class T>
std::vector<T> numbers(const JsonValue& array) {
  std::vector<T> values;
  for (const JsonValue& value : array.as_array()) values.push_back(value.to_number<T>());
  return values;
}

std::vector<Prompt> read_prompts() {
  const auto text = read_file(REPRISE_GOLDEN_DIR "/gemma3_270m_greedy.json", 1 << 20);
  const auto document = parse_json(text.value());
  std::vector<Prompt> prompts;
  for (const JsonValue& item : document.value().at("prompts").as_array()) {
    Prompt prompt;
    prompt.name = item.at("name").as_string();
    prompt.ids = numbers<TokenId>(item.at("prompt_ids"));
    prompt.generated = numbers<TokenId>(item.at("generated_ids"));
    for (const JsonValue& ids : item.at("top5_ids").as_array())
      prompt.top_ids.push_back(numbers<TokenId>(ids));
    for (const JsonValue& row : item.at("top5_logits").as_array())
      prompt.top_logits.push_back(numbers<float>(row));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

class RealModel : public ::testing::Test {
 protected:
  struct Models {
    explicit Models(const char* path) : pool(usable_cpus()) {
      file = std::make_unique<GgufFile>(GgufFile::open(path).value());
      auto checkpoint = std::make_unique<const Checkpoint>(Checkpoint::open(path).value());
      quantised = std::make_unique<Model>(Model::load(std::move(checkpoint), pool).value());
      exact = std::make_unique<Model>(testing::load_gguf(dequantised(*file), pool).value());
    }
    ThreadPool pool;
    std::unique_ptr<GgufFile> file;
    std::unique_ptr<Model> quantised, exact;
  };

  void SetUp() override {
    if (path() == nullptr) GTEST_SKIP() << "REPRISE_MODEL_GEMMA3 names no file (make test sets it)";
  }
  static const char* path() { return std::getenv("REPRISE_MODEL_GEMMA3"); }
  static Models& models() {
    static Models loaded(path());
    return loaded;
  }

  // Logits of the rows that choose the generated tokens, with the reference's tokens fed.
  static std::vector<float> forced_logits(Runner& runner, const Prompt& prompt) {
    SequenceCache cache = runner.sequence();
    std::vector<TokenId> tokens = prompt.ids;
    tokens.insert(tokens.end(), prompt.generated.begin(), prompt.generated.end() - 1);
    const int wanted = static_cast<int>(prompt.generated.size());
    BatchEntry entry{&cache, tokens, wanted};
    const std::span<const float> logits = runner.feed_batch({&entry, 1});
    return {logits.begin(), logits.end()};
  }
};

TEST_F(RealModel, Float32AgreesWithTransformers) {
  Runner runner(*models().exact, {.threads = usable_cpus(),
                                  .kv_type = kernels::KvType::f32,
                                  .rows_max = 1024,
                                  .budget_bytes = std::size_t{1} << 30});
  double worst = 0;
  for (const Prompt& prompt : read_prompts()) {
    const auto logits = forced_logits(runner, prompt);
    for (std::size_t step = 0; step < prompt.generated.size(); step++) {
      const float* row = &logits[step * runner.vocabulary];
      for (std::size_t i = 0; i < prompt.top_ids[step].size(); i++) {
        const double error = std::fabs(row[prompt.top_ids[step][i]] - prompt.top_logits[step][i]);
        worst = std::max(worst, error);
      }
    }
  }
  fmt::print("float32: largest difference of a top-5 logit from transformers: {:.2e}\n", worst);
  // 2e-5 of the logits' range (about 50); both sides round to float32 in different orders.
  EXPECT_LT(worst, 2e-5 * 50);
}

TEST_F(RealModel, QuantisedChoosesTheSameTokenBeyondTheBound) {
  Runner runner(*models().quantised,
                {.threads = usable_cpus(), .rows_max = 1024, .budget_bytes = std::size_t{1} << 30});
  int compared = 0;
  int agreed = 0;
  int total = 0;
  for (const Prompt& prompt : read_prompts()) {
    const auto logits = forced_logits(runner, prompt);
    for (std::size_t step = 0; step < prompt.generated.size(); step++) {
      const float* row = &logits[step * runner.vocabulary];
      const int best =
          kernels::choose_kernels("").value()->argmax(row, static_cast<int>(runner.vocabulary));
      total++;
      if (best == prompt.generated[step]) agreed++;
      if (prompt.top_logits[step][0] - prompt.top_logits[step][1] <= kMarginBound) continue;
      compared++;
      EXPECT_EQ(best, prompt.generated[step]) << prompt.name << " step " << step;
    }
  }
  fmt::print("quantised: {} of {} tokens agree; {} beyond the margin of {:.2f} compared\n", agreed,
             total, compared, kMarginBound);
  EXPECT_GT(compared, total / 2);
}

TEST_F(RealModel, MeanKlAgainstFloat32) {
  const Prompt text = read_prompts().back();
  ASSERT_GT(text.ids.size(), 800U);
  Runner exact(*models().exact, {.threads = usable_cpus(),
                                 .kv_type = kernels::KvType::f32,
                                 .budget_bytes = std::size_t{1} << 30});
  Runner quantised(*models().quantised,
                   {.threads = usable_cpus(), .budget_bytes = std::size_t{1} << 30});
  SequenceCache exact_cache = exact.sequence();
  SequenceCache quantised_cache = quantised.sequence();
  double sum = 0;
  for (std::size_t at = 0; at < text.ids.size(); at += 128) {
    const auto part =
        std::span(text.ids).subspan(at, std::min<std::size_t>(128, text.ids.size() - at));
    const auto p_logits = exact.feed(exact_cache, part);
    const auto q_logits = quantised.feed(quantised_cache, part);
    for (std::size_t row = 0; row < part.size(); row++) {
      const std::span p(&p_logits[row * exact.vocabulary], exact.vocabulary);
      const std::span q(&q_logits[row * exact.vocabulary], exact.vocabulary);
      const auto log_sum = [](std::span<const float> x) {
        double total = 0;
        for (const float value : x) total += std::exp(static_cast<double>(value));
        return std::log(total);
      };
      const double p_sum = log_sum(p);
      const double q_sum = log_sum(q);
      for (std::size_t id = 0; id < p.size(); id++) {
        const double log_p = p[id] - p_sum;
        sum += std::exp(log_p) * (log_p - (q[id] - q_sum));
      }
    }
  }
  const double mean = sum / static_cast<double>(text.ids.size());
  fmt::print("mean KL(float32 || quantised) over {} tokens: {:.5f}\n", text.ids.size(), mean);
  EXPECT_LT(mean, kMeanKlMax);
  EXPECT_GT(mean, 0);
}

}  // namespace
}  // namespace reprise
