// Rotary embedding in every spelling, against numbers computed elsewhere (transformers' formulas).
#include "model/rope_settings.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace reprise {
namespace {

using kernels::RopeLayout;

constexpr Position kContext = 1 << 17;

double relative(double got, double expected) {
  return std::abs(got / expected - 1);
}

TEST(Rope, Llama3ScalingHasThePublishedFrequencies) {
  RopeSettings rope{.type = "llama3", .theta = 5e5, .factor = 32};
  const RopeConfig small = make_rope(rope, 64, RopeLayout::half_split, kContext).value();
  EXPECT_LT(relative(small.inverse_frequencies[14], 3.21144599e-3), 1e-7);
  EXPECT_LT(relative(small.inverse_frequencies[15], 1.29054793e-3), 1e-7);
  EXPECT_LT(relative(small.inverse_frequencies[17], 9.7082878e-5), 1e-7);
  EXPECT_LT(relative(small.inverse_frequencies[31], 9.41830673e-8), 1e-7);
  rope.factor = 8;
  const RopeConfig large = make_rope(rope, 128, RopeLayout::half_split, kContext).value();
  EXPECT_LT(relative(large.inverse_frequencies[28], 3.21144599e-3), 1e-7);
  EXPECT_LT(relative(large.inverse_frequencies[29], 2.16657076e-3), 1e-7);
  EXPECT_LT(relative(large.inverse_frequencies[63], 3.06892599e-7), 1e-7);
}

TEST(Rope, Llama3ScalingWithEqualBoundsHasNoMiddleBand) {
  const RopeSettings rope{
      .type = "llama3", .theta = 5e5, .factor = 16, .low_frequency = 1, .high_frequency = 1};
  const RopeConfig config = make_rope(rope, 128, RopeLayout::interleaved, kContext).value();
  for (std::size_t i = 0; i < config.inverse_frequencies.size(); i++) {
    const double plain = std::pow(5e5, -2.0 * static_cast<double>(i) / 128);
    const double share = config.inverse_frequencies[i] / plain;
    EXPECT_TRUE(std::abs(share - 1) < 1e-9 || std::abs(share - 1.0 / 16) < 1e-9) << i;
  }
}

TEST(Rope, YarnInterpolatesAndScales) {
  RopeSettings rope{
      .type = "yarn", .theta = 150'000, .factor = 32, .original_context = 4096, .truncate = false};
  const RopeConfig plain = make_rope(rope, 64, RopeLayout::half_split, kContext).value();
  EXPECT_LT(relative(plain.inverse_frequencies[9], 0.0317056962), 1e-7);
  EXPECT_LT(relative(plain.inverse_frequencies[12], 6.79495949e-3), 1e-7);
  EXPECT_LT(relative(plain.inverse_frequencies[17], 1.29318701e-4), 1e-7);
  EXPECT_LT(relative(plain.scale, 1.34657), 1e-5);
  rope.truncate = true;
  const RopeConfig cut = make_rope(rope, 64, RopeLayout::half_split, kContext).value();
  EXPECT_LT(relative(cut.inverse_frequencies[9], 0.0316207523), 1e-7);
  EXPECT_LT(relative(cut.inverse_frequencies[17], 2.27947796e-4), 1e-7);
  const RopeSettings ministral{.type = "yarn",
                               .theta = 1e6,
                               .factor = 16,
                               .original_context = 16384,
                               .mscale = 1,
                               .mscale_all_dim = 1};
  const RopeConfig long_context =
      make_rope(ministral, 128, RopeLayout::half_split, kContext).value();
  EXPECT_EQ(long_context.scale, 1.0);
}

TEST(Rope, ProportionalRotatesTheFirstPairsOfTheWholeHead) {
  const RopeSettings rope{.type = "proportional", .theta = 1e6, .partial = 0.25};
  const RopeConfig config = make_rope(rope, 512, RopeLayout::half_split, kContext).value();
  ASSERT_EQ(config.inverse_frequencies.size(), 256U);
  EXPECT_LT(relative(config.inverse_frequencies[1], 0.947463526), 1e-8);
  EXPECT_LT(relative(config.inverse_frequencies[63], 0.0333762469), 1e-8);
  for (std::size_t i = 64; i < 256; i++) EXPECT_EQ(config.inverse_frequencies[i], 0) << i;
}

TEST(Rope, PartialRotatesTheFirstDimensionsWithinThemselves) {
  const RopeSettings rope{.theta = 100, .partial = 0.5};
  const RopeConfig config = make_rope(rope, 64, RopeLayout::half_split, kContext).value();
  EXPECT_EQ(config.rotary_dim(), 32);
  EXPECT_LT(relative(config.inverse_frequencies[1], std::pow(100.0, -2.0 / 32)), 1e-12);
  EXPECT_FALSE(make_rope({.partial = 0.01}, 64, RopeLayout::half_split, kContext).has_value());
  EXPECT_FALSE(make_rope({.partial = 1.5}, 64, RopeLayout::half_split, kContext).has_value());
}

bool names(const Error& error, std::initializer_list<std::string_view> words) {
  return std::ranges::all_of(words, [&](auto word) { return error.message.contains(word); });
}

// The kernels take angles up to 2^27.
TEST(Rope, FrequenciesThatTurnTooFarAreRefusedWithBothNumbers) {
  const auto made = [](const RopeSettings& rope, Position context) {
    return make_rope(rope, 64, RopeLayout::half_split, context);
  };
  for (const RopeSettings& rope :
       {RopeSettings{.theta = 1e-12}, RopeSettings{.theta = 1e-300},
        RopeSettings{.type = "linear", .factor = 1e-9},
        RopeSettings{.type = "llama3", .factor = 1e-12, .original_context = 1e-3},
        RopeSettings{.type = "yarn", .theta = 1, .factor = 4},
        RopeSettings{.type = "yarn", .factor = 1e-300}}) {
    const auto refused = made(rope, kContext);
    ASSERT_FALSE(refused.has_value()) << rope.type << " " << rope.theta << " " << rope.factor;
    EXPECT_EQ(refused.error().code, Errc::corrupt);
    EXPECT_EQ(refused.error().field, "rope_theta");
    EXPECT_TRUE(names(refused.error(), {fmt::format("got {},", rope.theta), "131072 tokens",
                                        fmt::format("factor {} ", rope.factor), "134217728"}))
        << refused.error().message;
  }
  // The first pair turns by 1 a token whatever theta is.
  EXPECT_TRUE(made({}, 1 << 27).has_value());
  const auto beyond = made({}, (1 << 27) + 1);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_TRUE(names(beyond.error(), {"134217729 tokens", "at most 134217728"}));
  EXPECT_TRUE(made({.theta = 1e-3}, kContext).has_value());
}

TEST(Rope, AScaleThatIsNoPositiveFloatIsRefused) {
  for (const RopeSettings& rope :
       {RopeSettings{.type = "yarn", .factor = 4, .attention_factor = 1e300},
        RopeSettings{.type = "yarn", .factor = 4, .mscale = -100, .mscale_all_dim = 1},
        RopeSettings{.type = "yarn", .factor = 4, .mscale = 1e300, .mscale_all_dim = 1e-300}}) {
    const auto refused = make_rope(rope, 64, RopeLayout::half_split, kContext);
    ASSERT_FALSE(refused.has_value()) << rope.mscale;
    EXPECT_EQ(refused.error().field, "attention_factor");
  }
}

TEST(Rope, APartThatIsNoPartIsRefusedBeforeItIsCounted) {
  for (const double partial : {1.0000001, 1e9, 1e300}) {
    const auto refused = make_rope({.partial = partial}, 64, RopeLayout::half_split, kContext);
    ASSERT_FALSE(refused.has_value());
    EXPECT_TRUE(names(refused.error(), {fmt::format("{}", partial), "at most 1"}));
  }
}

TEST(Rope, FactorsOfTheFileAreHeldToTheSameBound) {
  const auto applied = [](std::vector<float> factors, Position context) {
    testing::GgufWriter writer;
    writer.add_text("general.architecture", "llama");
    writer.add_tensor("rope_freqs.weight", {static_cast<std::int64_t>(factors.size())}, factors);
    const auto bytes = writer.finish();
    const Checkpoint checkpoint = Checkpoint::from_gguf_bytes(bytes).value();
    RopeConfig rope = make_rope({}, 4, RopeLayout::half_split, context).value();
    return apply_rope_factors(checkpoint, context, rope);
  };
  EXPECT_TRUE(applied({1, 1e30F}, kContext));
  EXPECT_TRUE(applied({0x1p-10F, 1}, 1 << 17));
  for (const float factor : {0x1p-11F, 1e-30F, 1e-45F}) {
    const Status refused = applied({factor, 1}, 1 << 17);
    ASSERT_FALSE(refused.has_value()) << factor;
    EXPECT_EQ(refused.error().field, "rope_freqs.weight");
    EXPECT_TRUE(names(refused.error(), {fmt::format("factor 0 is {},", factor), "131072 tokens",
                                        "at most 134217728"}))
        << refused.error().message;
  }
}

// The settings of a config.json with this body.
class RopeOfFolder : public ::testing::Test {
 protected:
  Result<RopeSettings> read(const std::string& body, std::string_view layer_type) {
    testing::SafetensorsWriter writer;
    writer.add_f32("x", {1}, std::vector<float>{0});
    const testing::CheckpointFolder folder(R"({"model_type": "llama", )" + body + "}", writer);
    checkpoint = std::make_unique<Checkpoint>(Checkpoint::open(folder.path()).value());
    return read_rope_settings(Settings::read(*checkpoint).value(), layer_type, 77);
  }
  std::unique_ptr<Checkpoint> checkpoint;
};

TEST_F(RopeOfFolder, EverySpellingIsRead) {
  const auto flat = read(R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 8})",
                         "full_attention");
  ASSERT_TRUE(flat) << flat.error().message;
  EXPECT_EQ(flat->theta, 5e5);
  EXPECT_EQ(flat->type, "linear");
  EXPECT_EQ(flat->factor, 8);
  const std::string nested =
      R"("rope_theta": 1, "rope_parameters": {
           "full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                              "partial_rotary_factor": 0.25},
           "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})";
  const auto full = read(nested, "full_attention");
  ASSERT_TRUE(full) << full.error().message;
  EXPECT_EQ(full->type, "proportional");
  EXPECT_EQ(full->theta, 1e6);
  EXPECT_EQ(full->partial, 0.25);
  EXPECT_EQ(read(nested, "sliding_attention")->theta, 1e4);
  EXPECT_EQ(read(R"("rope_parameters": {"rope_theta": 3})", "full_attention")->theta, 3);
  EXPECT_EQ(read(R"("rope_scaling": null)", "full_attention")->theta, 77);
}

TEST_F(RopeOfFolder, LengthDependentKindsAreRefusedByName) {
  for (const std::string type : {"longrope", "su", "dynamic", "mrope"}) {
    const auto rope =
        read(R"("rope_scaling": {"rope_type": ")" + type + R"(", "factor": 4})", "full_attention");
    ASSERT_FALSE(rope.has_value()) << type;
    EXPECT_EQ(rope.error().code, Errc::unsupported);
    EXPECT_NE(rope.error().message.find(type), std::string::npos);
  }
  const auto part = read(R"("partial_rotary_factor": 1e30)", "full_attention");
  ASSERT_FALSE(part.has_value());
  EXPECT_NE(part.error().message.find("at most 1"), std::string::npos);
  const auto negative = read(R"("rope_theta": 5, "rope_scaling": {"type": "linear", "factor": -8})",
                             "full_attention");
  ASSERT_FALSE(negative.has_value());
  EXPECT_NE(negative.error().message.find("factor"), std::string::npos);
}

}  // namespace
}  // namespace reprise
