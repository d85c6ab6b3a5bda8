// Attention over pages: every ISA, KV type, head size and grouping of rows gives the bits of the
// plain loop below; what a row cannot see changes nothing; the error against double stays within
// its formula.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compare.h"
#include "kernels/math.h"

namespace reprise::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kOffset = 192;  // a block does not start at its page's start
constexpr KvType kTypes[] = {KvType::f16, KvType::bf16, KvType::f32, KvType::int8};

std::vector<KernelTable> tables() {
  std::vector<KernelTable> all(1);
  all[0].isa = "scalar";
  scalar::add_attention_kernels(all[0]);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    all.emplace_back();
    all[1].isa = "avx2";
    avx2::add_attention_kernels(all[1]);
  }
  if (all.size() == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    all.emplace_back();
    all[2].isa = "avx512";
    avx512::add_attention_kernels(all[2]);
  }
  return all;
}

float read_element(KvType type, const std::uint8_t* elements, std::size_t index) {
  if (type == KvType::f32) {
    float value;
    std::memcpy(&value, elements + 4 * index, 4);
    return value;
  }
  if (type == KvType::int8) return static_cast<std::int8_t>(elements[index]);
  std::uint16_t word;
  std::memcpy(&word, elements + 2 * index, 2);
  return type == KvType::f16 ? half_to_float(word) : bfloat_to_float(word);
}

struct alignas(64) Line {
  std::uint8_t bytes[64];
};

// The pages of one head with random keys and values in positions [0, length).
class Pages {
 public:
  Pages(KvShape shape, int length, unsigned seed, float value_spread = 1.0f) : shape_(shape) {
    const auto keys = static_cast<std::size_t>(shape.head_dim);
    const auto values = static_cast<std::size_t>(shape.value_dim);
    const int count = (length + kSegmentPositions - 1) / kSegmentPositions * kSegmentPages;
    memory_.resize(static_cast<std::size_t>(count));
    for (auto& page : memory_) {
      page.assign((kOffset + shape.block_bytes() + 63) / 64, Line{});
      pointers_.push_back(page[0].bytes);
    }
    for (int position = 0; position < length; position++) {
      const unsigned s = seed + 2 * static_cast<unsigned>(position);
      store(position, normal_values(keys, s), normal_values(values, s + 1, value_spread));
    }
  }

  void store(int position, const std::vector<float>& key, const std::vector<float>& value) {
    std::uint8_t* page = memory_[static_cast<std::size_t>(position / kPagePositions)][0].bytes;
    const int place = position % kPagePositions;
    tables()[0].store_kv(shape_, page + kOffset, place, key.data(), value.data());
  }
  float key(int position, int d) const {
    const int place = position % kPagePositions;
    return read_element(shape_.type, block(position), shape_.key_index(place, d));
  }
  float value(int position, int d) const {
    return read_element(shape_.type, block(position) + shape_.keys_bytes(),
                        KvShape::value_index(position % kPagePositions, d));
  }
  // What the elements of a place are multiplied by.
  float key_scale(int position) const { return scale(position, &KvShape::key_scale_offset); }
  float value_scale(int position) const { return scale(position, &KvShape::value_scale_offset); }
  void drop(int page) { pointers_[static_cast<std::size_t>(page)] = nullptr; }
  KvBlocks blocks() const { return {pointers_.data(), kOffset, shape_}; }
  const KvShape& shape() const { return shape_; }

 private:
  const std::uint8_t* block(int position) const {
    return memory_[static_cast<std::size_t>(position / kPagePositions)][0].bytes + kOffset;
  }
  float scale(int position, std::size_t (KvShape::*offset)(int) const) const {
    if (shape_.type != KvType::int8) return 1.0f;
    float value;
    std::memcpy(&value, block(position) + (shape_.*offset)(position % kPagePositions), 4);
    return value;
  }
  KvShape shape_;
  std::vector<std::vector<Line>> memory_;
  std::vector<const std::uint8_t*> pointers_;
};

struct Queries {
  int head_dim = 0;
  std::vector<float> values;
  std::vector<VisibleRange> visible;

  int rows() const { return static_cast<int>(visible.size()); }
  std::size_t stride() const { return static_cast<std::size_t>(head_dim) + 16; }
  const float* row(int r) const { return &values[static_cast<std::size_t>(r) * stride()]; }
};

Queries make_queries(int head_dim, std::vector<VisibleRange> visible, unsigned seed) {
  Queries queries{head_dim, {}, std::move(visible)};
  const float spread = 2.0f / std::sqrt(static_cast<float>(head_dim));
  queries.values = normal_values(queries.visible.size() * queries.stride(), seed, spread);
  return queries;
}

// Rows at increasing positions below `length`; every third sees a window only.
std::vector<VisibleRange> mixed_ranges(int rows, int length, int window) {
  std::vector<VisibleRange> ranges;
  for (int r = 0; r < rows; r++) {
    const int last = (length - 1) * (r + 1) / rows;
    ranges.push_back({r % 3 == 2 ? std::max(0, last - window + 1) : 0, last});
  }
  return ranges;
}

// Runs all rows, `group` at a time; segments in descending order, merged ascending.
std::vector<float> attend(const KernelTable& table, const Pages& pages, const Queries& queries,
                          int group) {
  const int value_dim = pages.shape().value_dim;
  const std::size_t state = attention_state_floats(value_dim);
  const auto width = static_cast<std::size_t>(value_dim);
  std::vector<float> out(static_cast<std::size_t>(queries.rows()) * width, -1.0f);
  for (int begin = 0; begin < queries.rows(); begin += group) {
    const int rows = std::min(group, queries.rows() - begin);
    const VisibleRange* visible = &queries.visible[static_cast<std::size_t>(begin)];
    int last = 0;
    for (int r = 0; r < rows; r++) last = std::max(last, visible[r].last);
    const int segments = last / kSegmentPositions + 1;
    const std::size_t floats = state * static_cast<std::size_t>(rows);
    std::vector<std::vector<float>> parts(static_cast<std::size_t>(segments));
    for (int segment = segments - 1; segment >= 0; segment--) {
      std::vector<float>& part = parts[static_cast<std::size_t>(segment)];
      part.assign(floats, kNan);  // a state starts empty whatever was there
      table.attend_segment(pages.blocks(), rows, queries.row(begin), queries.stride(), visible,
                           segment, part.data());
    }
    std::vector<float> total(floats, kNan);
    table.clear_states(value_dim, rows, total.data());
    for (const auto& part : parts) table.merge_states(value_dim, rows, total.data(), part.data());
    table.finish_states(value_dim, rows, total.data(),
                        &out[static_cast<std::size_t>(begin) * width], width);
  }
  return out;
}

struct PlainState {
  explicit PlainState(int value_dim) : out(static_cast<std::size_t>(value_dim)) {}
  float maximum = -std::numeric_limits<float>::max();
  float sum = 0;
  std::vector<float> out;
};

// The contract of one page for one row, in plain loops.
void plain_page(const Pages& pages, const float* q, VisibleRange visible, int start,
                PlainState& s) {
  float x[kPagePositions], top = s.maximum, lanes[16] = {};
  for (int i = 0; i < kPagePositions; i++) {
    x[i] = 0;
    for (int d = 0; d < pages.shape().head_dim; d++) {
      x[i] = __builtin_fmaf(q[d], pages.key(start + i, d), x[i]);
    }
    x[i] = x[i] * pages.key_scale(start + i);
    if (start + i < visible.first || start + i > visible.last) x[i] = -kInfinity;
    top = std::max(top, x[i]);
  }
  const float factor = exp_f32(s.maximum - top);
  for (int i = 0; i < kPagePositions; i++) {
    x[i] = exp_f32(x[i] - top);
    lanes[i % 16] = lanes[i % 16] + x[i];
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) lanes[i] = lanes[i] + lanes[i + half];
  }
  s.maximum = top;
  s.sum = __builtin_fmaf(s.sum, factor, lanes[0]);
  for (int i = 0; i < kPagePositions; i++) x[i] = x[i] * pages.value_scale(start + i);
  for (int d = 0; d < pages.shape().value_dim; d++) {
    float o = s.out[static_cast<std::size_t>(d)] * factor;
    for (int i = 0; i < kPagePositions; i++) o = __builtin_fmaf(x[i], pages.value(start + i, d), o);
    s.out[static_cast<std::size_t>(d)] = o + 0.0f;
  }
}

std::vector<float> plain_attention(const Pages& pages, const float* q, VisibleRange visible) {
  const int value_dim = pages.shape().value_dim;
  PlainState total(value_dim);
  for (int segment = 0; segment <= visible.last / kSegmentPositions; segment++) {
    PlainState part(value_dim);
    for (int page = segment * kSegmentPages; page < (segment + 1) * kSegmentPages; page++) {
      const int start = page * kPagePositions;
      if (start > visible.last || start + kPagePositions <= visible.first) continue;
      plain_page(pages, q, visible, start, part);
    }
    const float top = std::max(total.maximum, part.maximum);
    const float a = exp_f32(total.maximum - top), b = exp_f32(part.maximum - top);
    total.maximum = top;
    total.sum = __builtin_fmaf(part.sum, b, total.sum * a);
    for (std::size_t d = 0; d < total.out.size(); d++) {
      total.out[d] = __builtin_fmaf(part.out[d], b, total.out[d] * a) + 0.0f;
    }
  }
  for (float& o : total.out) o = o / total.sum;
  return total.out;
}

std::vector<float> plain_attention(const Pages& pages, const Queries& queries) {
  std::vector<float> all;
  for (int r = 0; r < queries.rows(); r++) {
    const VisibleRange visible = queries.visible[static_cast<std::size_t>(r)];
    const std::vector<float> row = plain_attention(pages, queries.row(r), visible);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

std::string describe(const KvShape& shape) {
  return std::to_string(static_cast<int>(shape.type)) + " " + std::to_string(shape.head_dim) + "/" +
         std::to_string(shape.value_dim);
}

TEST(Attention, EveryIsaTypeSizeAndGroupingEqualsThePlainLoop) {
  const int dims[][2] = {{16, 16},   {32, 32}, {48, 48},  {64, 64},   {128, 128}, {256, 256},
                         {512, 512}, {48, 16}, {64, 112}, {192, 128}, {256, 512}};
  for (const auto& dim : dims) {
    for (const KvType type : kTypes) {
      const KvShape shape{type, dim[0], dim[1]};
      const int length = dim[0] > 128 ? 330 : 600, rows = dim[0] > 128 ? 7 : 13;
      const Pages pages(shape, length, 3);
      const Queries queries = make_queries(dim[0], mixed_ranges(rows, length, 100), 4);
      const std::vector<float> want = plain_attention(pages, queries);
      for (const KernelTable& table : tables()) {
        const bool every = std::string(table.isa) != "scalar" || dim[0] == 48;
        for (int group = 1; group <= rows; group += every ? 1 : 6) {
          ASSERT_EQ(first_difference(attend(table, pages, queries, group), want), -1)
              << table.isa << " type, dims " << describe(shape) << " group " << group;
        }
      }
    }
  }
}

TEST(Attention, EveryRangeOfTheFirstPagesEqualsThePlainLoop) {
  const KvShape shape{KvType::f16, 16, 32};
  const Pages pages(shape, 300, 5);
  std::vector<VisibleRange> ranges;
  for (int last = 0; last < 300; last += 7) {
    for (const int window : {1, 2, 63, 64, 65, 128, 400}) {
      ranges.push_back({std::max(0, last - window + 1), last});
    }
  }
  const Queries queries = make_queries(16, ranges, 6);
  const std::vector<float> want = plain_attention(pages, queries);
  for (const KernelTable& table : tables()) {
    for (const int group : {1, 4, 13}) {
      EXPECT_EQ(first_difference(attend(table, pages, queries, group), want), -1) << table.isa;
    }
  }
}

TEST(Attention, ErrorAgainstDoubleStaysWithinItsFormula) {
  for (const KvType type : kTypes) {
    const int head_dim = 128, value_dim = 64, length = 1500;
    const Pages pages({type, head_dim, value_dim}, length, 7);
    const Queries queries = make_queries(head_dim, mixed_ranges(9, length, 700), 8);
    const std::vector<float> got = attend(tables().back(), pages, queries, 6);
    for (int r = 0; r < queries.rows(); r++) {
      const VisibleRange visible = queries.visible[static_cast<std::size_t>(r)];
      std::vector<double> exact(static_cast<std::size_t>(value_dim)), spread = exact;
      double sum = 0, largest_score_size = 0;
      for (int t = visible.first; t <= visible.last; t++) {
        double score = 0, size = 0;
        for (int d = 0; d < head_dim; d++) {
          const double key = static_cast<double>(pages.key(t, d)) * pages.key_scale(t);
          const double product = queries.row(r)[d] * key;
          score += product;
          size += std::fabs(product);
        }
        largest_score_size = std::max(largest_score_size, size);
        const double p = std::exp(score);
        sum += p;
        for (int d = 0; d < value_dim; d++) {
          const double value = static_cast<double>(pages.value(t, d)) * pages.value_scale(t);
          exact[static_cast<std::size_t>(d)] += p * value;
          spread[static_cast<std::size_t>(d)] += p * std::fabs(value);
        }
      }
      // A probability is off by the score's chain (head_dim roundings of at most the sum of sizes),
      // exp's 2 ulp and the rounded difference, in numerator and denominator; the chains of 64 and
      // the merges add a rounding a step; int8 adds one to the score and one to the probability.
      // u = 2^-24.
      const double scalings = type == KvType::int8 ? 2 * largest_score_size + 1 : 0;
      const double roundings = scalings +
                               2 * (head_dim * largest_score_size + 8 + largest_score_size) +
                               2 * (64 + 3 * (visible.last / kPagePositions + 2));
      for (int d = 0; d < value_dim; d++) {
        const auto i = static_cast<std::size_t>(d);
        const double bound = roundings * 0x1p-24 * spread[i] / sum;
        EXPECT_NEAR(got[static_cast<std::size_t>(r * value_dim + d)], exact[i] / sum, bound);
        EXPECT_LT(bound, 2e-3);  // a bound that cannot fail would say nothing
      }
    }
  }
}

TEST(Attention, PagesThatNoRowSeesAreNotTouched) {
  Pages pages({KvType::f16, 32, 32}, 1100, 9);
  const Queries queries = make_queries(32, {{700, 801}, {705, 806}, {1000, 1030}}, 10);
  const std::vector<float> want = plain_attention(pages, queries);
  for (int page = 0; page < 20; page++) {
    const int start = page * kPagePositions, end = start + kPagePositions - 1;
    const bool seen = (start <= 806 && end >= 700) || (start <= 1030 && end >= 1000);
    if (!seen) pages.drop(page);
  }
  for (const KernelTable& table : tables()) {
    EXPECT_EQ(first_difference(attend(table, pages, queries, 3), want), -1) << table.isa;
  }
}

TEST(Attention, WhatARowCannotSeeChangesNothing) {
  for (const KvType type : kTypes) {
    const KvShape shape{type, 32, 48};
    Pages pages(shape, 600, 11);
    // The first row's window; the second sees everything, so that their tile reads every page.
    const Queries queries = make_queries(32, {{150, 330}, {0, 599}}, 12);
    const Queries alone{32, {queries.row(0), queries.row(1)}, {queries.visible[0]}};
    for (const KernelTable& table : tables()) {
      const std::vector<float> want = attend(table, pages, alone, 1);
      std::vector<float> got = attend(table, pages, queries, 2);
      got.resize(48);
      EXPECT_EQ(first_difference(got, want), -1) << table.isa;
    }
    const std::vector<float> before = attend(tables().back(), pages, alone, 1);
    for (int position = 0; position < 600; position++) {  // the largest a place can hold, or nearly
      if (position >= 150 && position <= 330) continue;
      const float huge = type == KvType::f16 ? 65504.0f : 1e18f;
      pages.store(position, std::vector<float>(32, huge), std::vector<float>(48, -huge));
    }
    for (const KernelTable& table : tables()) {
      std::vector<float> after = attend(table, pages, queries, 2);
      after.resize(48);
      EXPECT_EQ(first_difference(after, before), -1) << table.isa << " " << describe(shape);
    }
  }
}

TEST(Attention, AMergedEmptySegmentIsTheIdentity) {
  const KvShape shape{KvType::f16, 16, 16};
  const Pages pages(shape, 256, 13);
  const Queries queries = make_queries(16, {{10, 200}}, 14);
  for (const KernelTable& table : tables()) {
    std::vector<float> empty(attention_state_floats(16)), part = empty, total = empty;
    table.clear_states(16, 1, empty.data());
    table.clear_states(16, 1, total.data());
    table.attend_segment(pages.blocks(), 1, queries.row(0), queries.stride(),
                         queries.visible.data(), 0, part.data());
    table.merge_states(16, 1, total.data(), empty.data());
    EXPECT_EQ(first_difference(total, empty), -1) << table.isa;
    table.merge_states(16, 1, total.data(), part.data());
    EXPECT_EQ(first_difference(total, part), -1) << table.isa;
    table.merge_states(16, 1, total.data(), empty.data());
    EXPECT_EQ(first_difference(total, part), -1) << table.isa;
  }
}

// Products that underflow could leave -0, which a page of zero probabilities would turn into +0.
TEST(Attention, UnderflowingValuesKeepTheIdentity) {
  Pages pages({KvType::f32, 16, 16}, 128, 15);
  std::vector<float> q(32), key(16), value(16);
  q[0] = 1.0f;
  for (int position = 0; position < 128; position++) {
    // Position 0 takes all the weight with value 0; the others weigh e^-87 times a small value.
    key[0] = position == 0 ? 0.0f : -87.0f;
    std::fill(value.begin(), value.end(), position == 0 ? 0.0f : position < 64 ? -1e-30f : 1e-30f);
    pages.store(position, key, value);
  }
  Queries together{16, q, {{0, 63}, {0, 127}}};
  together.values.insert(together.values.end(), q.begin(), q.end());
  const Queries alone{16, q, {{0, 63}}};
  for (const KernelTable& table : tables()) {
    const std::size_t floats = attention_state_floats(16);
    std::vector<float> want(floats), got(2 * floats);
    table.attend_segment(pages.blocks(), 1, alone.row(0), 32, alone.visible.data(), 0, want.data());
    table.attend_segment(pages.blocks(), 2, together.row(0), 32, together.visible.data(), 0,
                         got.data());
    got.resize(floats);
    EXPECT_EQ(first_difference(got, want), -1) << table.isa;
  }
}

TEST(Attention, ABadQueryShowsInItsOwnRowOnly) {
  const Pages pages({KvType::f16, 32, 32}, 100, 16);
  for (const float bad : {kNan, kInfinity}) {
    Queries queries = make_queries(32, {{0, 70}, {0, 80}, {0, 90}}, 17);
    const std::vector<float> want = plain_attention(pages, queries);
    queries.values[queries.stride() + 5] = bad;
    for (const KernelTable& table : tables()) {
      const std::vector<float> got = attend(table, pages, queries, 3);
      for (std::size_t i = 0; i < got.size(); i++) {
        if (i / 32 == 1) {
          EXPECT_FALSE(std::isfinite(got[i])) << table.isa;
        } else {
          EXPECT_TRUE(same(got[i], want[i])) << table.isa;
        }
      }
    }
  }
}

TEST(StoreKv, RoundsSaturatesAndWritesItsPlaceOnly) {
  for (const KvType type : {KvType::f16, KvType::bf16, KvType::f32}) {  // int8: int8_kv_test.cpp
    const KvShape shape{type, 48, 80};
    std::vector<float> key = normal_values(48, 18), value = normal_values(80, 19);
    key[3] = 1e30f;
    key[4] = -70000.0f;
    key[5] = 65519.0f;
    key[6] = 1e-41f;
    value[7] = std::numeric_limits<float>::max();
    value[79] = std::numeric_limits<float>::lowest();
    const auto rounded = [&](float v) {
      if (type == KvType::f32) return v;
      if (type == KvType::bf16) {
        const float largest = bfloat_to_float(0x7f7f);
        return bfloat_to_float(float_to_bfloat(std::clamp(v, -largest, largest)));
      }
      return half_to_float(float_to_half(std::clamp(v, -65504.0f, 65504.0f)));
    };
    for (const KernelTable& table : tables()) {
      for (const int place : {0, 15, 16, 37, 63}) {
        std::vector<Line> block((shape.block_bytes() + 63) / 64);
        std::uint8_t* bytes = block[0].bytes;
        EXPECT_TRUE(table.store_kv(shape, bytes, place, key.data(), value.data()));
        for (int p = 0; p < kPagePositions; p++) {
          for (int d = 0; d < shape.head_dim; d++) {
            const float want = p == place ? rounded(key[static_cast<std::size_t>(d)]) : 0.0f;
            ASSERT_TRUE(same(read_element(type, bytes, shape.key_index(p, d)), want)) << table.isa;
          }
          for (int d = 0; d < shape.value_dim; d++) {
            const float want = p == place ? rounded(value[static_cast<std::size_t>(d)]) : 0.0f;
            const std::uint8_t* values = bytes + shape.keys_bytes();
            ASSERT_TRUE(same(read_element(type, values, KvShape::value_index(p, d)), want));
          }
        }
      }
    }
  }
}

TEST(StoreKv, ReportsNanAndInfinityAndStoresFiniteValues) {
  for (const KvType type : kTypes) {
    const KvShape shape{type, 16, 32};
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      for (std::size_t at = 0; at < 48; at++) {
        std::vector<float> both = normal_values(48, 20);
        both[at] = bad;
        std::vector<Line> first;
        for (const KernelTable& table : tables()) {
          std::vector<Line> block(shape.block_bytes() / 64);
          std::uint8_t* bytes = block[0].bytes;
          EXPECT_FALSE(table.store_kv(shape, bytes, 9, &both[0], &both[16])) << table.isa;
          for (std::size_t e = 0; e < shape.block_bytes() / shape.element_bytes(); e++) {
            ASSERT_TRUE(std::isfinite(read_element(type, bytes, e)));
          }
          if (type == KvType::int8) {
            for (const std::size_t at_byte :
                 {shape.key_scale_offset(9), shape.value_scale_offset(9)}) {
              EXPECT_TRUE(std::isfinite(127 * read_element(KvType::f32, bytes + at_byte, 0)));
            }
          }
          if (first.empty()) first = block;
          EXPECT_EQ(std::memcmp(block.data(), first.data(), shape.block_bytes()), 0) << table.isa;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::kernels
