// Attention over F16 pages as the forward pass calls it: prefill at several depths, decode with
// keys and values from memory.
#include <algorithm>
#include <cstring>
#include <random>

#include <fmt/core.h>

#include "bench/kernels/bench.h"
#include "bench/kernels/ring.h"
#include "kernels/math.h"
#include "unit/kernels/matrices.h"

namespace reprise::bench {
namespace {

using kernels::AlignedBytes;
using kernels::KernelTable;
using kernels::kPagePositions;

constexpr int kRowsPerTask = 48;  // queries that share a call, as in the forward pass

struct AttentionCase {
  const KernelTable* table;
  int head_dim;
  int heads;
  int kv_heads;
  int queries;
  int depth;  // positions before the first query

  int positions() const { return depth + queries; }
  int group() const { return heads / kv_heads; }
  bool is_decode() const { return queries == 1; }
  CaseName name() const {
    return {is_decode() ? Kind::attention_decode : Kind::attention_prefill,
            fmt::format("D{}", head_dim),
            fmt::format("{}on{}", heads, kv_heads),
            queries,
            is_decode() ? positions() : depth,
            table->isa};
  }
  // Multiply-adds of the pairs that causality leaves.
  double work() const {
    double pairs = 0;
    for (int i = 0; i < queries; i++) pairs += depth + i + 1;
    return pairs * heads * head_dim * 2;
  }
  double bytes() const { return 4.0 * positions() * kv_heads * head_dim; }
};

// Random halves of 64 positions: one page of ours, and the same as the peer lays them out.
struct KvPattern {
  explicit KvPattern(const AttentionCase& one)
      : shape{kernels::KvType::f16, one.head_dim, one.head_dim},
        page(shape.block_bytes() * static_cast<std::size_t>(one.kv_heads)) {
    const auto kv_heads = static_cast<std::size_t>(one.kv_heads);
    const auto dim = static_cast<std::size_t>(one.head_dim);
    keys.resize(kPagePositions * kv_heads * dim);
    values.resize(keys.size());
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (std::size_t head = 0; head < kv_heads; head++) {
      auto* own_keys = reinterpret_cast<std::uint16_t*>(page.data() + head * shape.block_bytes());
      std::uint16_t* own_values = own_keys + shape.keys_bytes() / 2;
      for (int place = 0; place < kPagePositions; place++) {
        for (int d = 0; d < one.head_dim; d++) {
          const std::size_t at =
              (static_cast<std::size_t>(place) * kv_heads + head) * dim + static_cast<unsigned>(d);
          keys[at] = kernels::float_to_half(normal(random));
          values[at] = kernels::float_to_half(normal(random));
          own_keys[shape.key_index(place, d)] = keys[at];
          own_values[kernels::KvShape::value_index(place, d)] = values[at];
        }
      }
    }
  }
  kernels::KvShape shape;
  AlignedBytes page;
  std::vector<std::uint16_t> keys;  // [64, kv_heads, head_dim]
  std::vector<std::uint16_t> values;
};

std::vector<float> random_queries(const AttentionCase& one) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 2.0f / std::sqrt(static_cast<float>(one.head_dim)));
  std::vector<float> q(static_cast<std::size_t>(one.queries * one.heads * one.head_dim));
  for (float& value : q) value = normal(random);
  return q;
}

class OurAttention {
 public:
  OurAttention(const AttentionCase& one, const KvPattern& pattern, const std::vector<float>& q)
      : case_(one),
        q_(q),
        out(q.size()),
        shape_(pattern.shape),
        page_bytes_(pattern.page.size()),
        cache_(pattern.page.data(), page_bytes_,
               page_bytes_ * static_cast<std::size_t>(page_count()), one.is_decode()),
        pages_(static_cast<std::size_t>(page_count())),
        visible_(kRowsPerTask),
        totals_(state_bytes()),
        parts_(state_bytes()),
        queries_(sizeof(float) * kRowsPerTask * static_cast<std::size_t>(one.head_dim)) {}

  void run() {
    const std::uint8_t* const base = cache_.next();
    for (std::size_t page = 0; page < pages_.size(); page++) {
      pages_[page] = base + page * page_bytes_;
    }
    const int tokens = std::max(1, kRowsPerTask / case_.group());
    for (int first = 0; first < case_.queries; first += tokens) {
      for (int head = 0; head < case_.kv_heads; head++) {
        run_task(first, std::min(tokens, case_.queries - first), head);
      }
    }
  }

 private:
  int page_count() const { return (case_.positions() + kPagePositions - 1) / kPagePositions; }
  std::size_t state_bytes() const {
    return sizeof(float) * kRowsPerTask * kernels::attention_state_floats(case_.head_dim);
  }
  std::size_t query_at(int token, int kv_head) const {
    return static_cast<std::size_t>((token * case_.heads + kv_head * case_.group()) *
                                    case_.head_dim);
  }

  // `tokens` queries from `first` on, all heads that share one kv head.
  void run_task(int first, int tokens, int kv_head) {
    const int group = case_.group(), dim = case_.head_dim, rows = tokens * group;
    auto* queries = reinterpret_cast<float*>(queries_.data());
    auto* totals = reinterpret_cast<float*>(totals_.data());
    auto* parts = reinterpret_cast<float*>(parts_.data());
    for (int token = 0; token < tokens; token++) {
      std::copy_n(q_.data() + query_at(first + token, kv_head), group * dim,
                  queries + token * group * dim);
      const int position = case_.depth + first + token;
      std::fill_n(visible_.begin() + token * group, group, kernels::VisibleRange{0, position});
    }
    const kernels::KvBlocks blocks{
        pages_.data(), static_cast<std::size_t>(kv_head) * shape_.block_bytes(), shape_};
    const KernelTable& table = *case_.table;
    table.clear_states(dim, rows, totals);
    const int last = case_.depth + first + tokens - 1;
    for (int segment = 0; segment <= last / kernels::kSegmentPositions; segment++) {
      table.attend_segment(blocks, rows, queries, static_cast<std::size_t>(dim), visible_.data(),
                           segment, parts);
      table.merge_states(dim, rows, totals, parts);
    }
    const std::size_t token_floats =
        kernels::attention_state_floats(dim) * static_cast<std::size_t>(group);
    for (int token = 0; token < tokens; token++) {
      table.finish_states(dim, group, totals + static_cast<std::size_t>(token) * token_floats,
                          out.data() + query_at(first + token, kv_head),
                          static_cast<std::size_t>(dim));
    }
  }

  AttentionCase case_;
  const std::vector<float>& q_;

 public:
  std::vector<float> out;

 private:
  kernels::KvShape shape_;
  std::size_t page_bytes_;
  Ring cache_;
  std::vector<const std::uint8_t*> pages_;
  std::vector<kernels::VisibleRange> visible_;
  AlignedBytes totals_, parts_, queries_;
};

class PeerSide {
 public:
  PeerSide(const Peer& peer, const AttentionCase& one, const KvPattern& pattern,
           const std::vector<float>& q)
      : peer_(peer),
        out(q.size()),
        keys_(bytes_of(pattern.keys), pattern.keys.size() * 2, cache_bytes(one), one.is_decode()),
        values_(bytes_of(pattern.values), pattern.values.size() * 2, cache_bytes(one),
                one.is_decode()),
        mask_(static_cast<std::size_t>(one.queries) * static_cast<std::size_t>(one.positions())),
        work_(std::size_t{16} << 20) {
    constexpr std::uint16_t kMinusInfinity = 0xfc00;
    const auto positions = static_cast<std::size_t>(one.positions());
    for (std::size_t i = 0; i < static_cast<std::size_t>(one.queries); i++) {
      const std::size_t seen = static_cast<std::size_t>(one.depth) + i + 1;
      std::fill_n(mask_.begin() + static_cast<std::ptrdiff_t>(i * positions + seen),
                  positions - seen, kMinusInfinity);
    }
    call_ = {one.heads, one.kv_heads, one.head_dim, one.queries, one.positions(), q.data(),
             nullptr,   nullptr,      mask_.data(), out.data(),  work_.data()};
  }
  bool run() {
    call_.keys = reinterpret_cast<const std::uint16_t*>(keys_.next());
    call_.values = reinterpret_cast<const std::uint16_t*>(values_.next());
    return peer_.attend(call_, 1.0f);
  }

 private:
  static const std::uint8_t* bytes_of(const std::vector<std::uint16_t>& halves) {
    return reinterpret_cast<const std::uint8_t*>(halves.data());
  }
  static std::size_t cache_bytes(const AttentionCase& one) {
    return static_cast<std::size_t>(2 * one.positions() * one.kv_heads * one.head_dim);
  }
  const Peer& peer_;

 public:
  std::vector<float> out;

 private:
  Ring keys_, values_;
  std::vector<std::uint16_t> mask_;
  AlignedBytes work_;
  PeerAttention call_;
};

void run_attention(Bench& bench, const AttentionCase& one, benchmark::State& state) {
  const KvPattern pattern(one);
  const std::vector<float> q = random_queries(one);
  OurAttention ours(one, pattern, q);
  ours.run();
  std::vector<Contender> contenders = {{"reprise", [&] { ours.run(); }, one.work(), one.bytes()}};
  std::unique_ptr<PeerSide> side;
  if (const Peer* peer = bench.peer_for(one.table->isa)) {
    side = std::make_unique<PeerSide>(*peer, one, pattern, q);
    const bool runs = side->run();
    const double alike = runs ? cosine(ours.out, side->out) : 0;
    if (alike > 0.999) {
      contenders.push_back({"flash attention", [&] { side->run(); }, one.work(), one.bytes()});
    } else {
      fmt::print(stderr, "{}: peer left out: {}, cosine {:.4f}\n", one.name().text(),
                 runs ? "its result differs" : "it has no kernel for this", alike);
    }
  }
  bench.run(state, one.name(), contenders);
}

void add(Bench& bench, const AttentionCase& one) {
  register_case(one.name(),
                [&bench, one](benchmark::State& state) { run_attention(bench, one, state); });
}

}  // namespace

void register_attention_cases(Bench& bench) {
  for (const KernelTable* table : kernels::available_kernels()) {
    if (std::string_view(table->isa) == "scalar") {
      add(bench, {table, 128, 4, 1, 16, 48});
      continue;
    }
    for (const int depth : {0, 512, 1536, 2048}) {
      if (!bench.quick || depth == 0 || depth == 2048) {
        add(bench, {table, 256, 4, 1, 512, depth});
      }
      if (!bench.quick || depth == 512) add(bench, {table, 128, 32, 8, 512, depth});
    }
    for (const int positions : {2048, 8192}) {
      add(bench, {table, 256, 4, 1, 1, positions - 1});
      if (!bench.quick) add(bench, {table, 128, 32, 8, 1, positions - 1});
    }
  }
}

}  // namespace reprise::bench
