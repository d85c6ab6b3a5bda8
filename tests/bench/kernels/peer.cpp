// Finds the peer's functions and checks that the library is the one whose interface we declare.
#include "bench/kernels/peer.h"

#include <cstring>
#include <dlfcn.h>
#include <vector>

#include <fmt/core.h>

namespace reprise::bench {

using kernels::WeightType;

// What the library says of a type, returned through memory; the tail is slack, should a later
// version's be longer.
struct Peer::Traits {
  const char* name;
  std::int64_t block_columns;
  std::int64_t interleaved_columns;
  std::size_t block_bytes;
  bool is_quantized;
  void* to_float;
  void (*from_float)(const float*, void*, std::int64_t);
  void* from_float_reference;
  void* from_float_to_matrix;
  void* dot;
  int dot_type;
  std::int64_t rows;
  std::int64_t columns;
  void* gemv;
  void* gemm;
  std::int64_t row_header_bytes;
  std::uint8_t slack[256];
};

struct Peer::Functions {
  struct InitParameters {
    std::size_t size;
    void* buffer;
    bool no_allocation;
  };
  void* (*init)(InitParameters);
  Traits (*traits)(int type);
  std::size_t (*row_size)(int type, std::int64_t columns);
  std::size_t (*quantize_chunk)(int type, const float* from, void* to, std::int64_t start,
                                std::int64_t rows, std::int64_t columns, const float* importance);
  bool (*multiply)(long rows_a, long rows_b, long columns, int type_a, const void* a, long stride_a,
                   int type_b, const void* b, long stride_b, float* out, long stride_out,
                   int thread, int threads);
  bool (*attend)(int type_q, int type_mask, float max_bias, int neq3, int neq2, long nbq3,
                 long nbq2, int nek3, int nek2, long nbk3, long nbk2, int nev3, int nev2, long nbv3,
                 long nbv2, int ne2, int ne1, long nb1, int type_k, int type_v, int key_dim,
                 int value_dim, int queries, int positions, int stride_q, int stride_k,
                 int stride_v, int stride_mask, const void* q, const void* k, const void* v,
                 const void* mask, const void* sinks, float scale, float softcap, float* out,
                 void* work, void (*barrier)(void*), void* barrier_data, int thread, int threads,
                 int window);
};

PeerForms peer_forms(WeightType type) {
  switch (type) {
    case WeightType::f16:
      return {kPeerF16, {}};
    case WeightType::q4_0:
      return {{2, "q4_0"}, {202, "q4_0_r8"}};
    case WeightType::q4_1:
      return {{3, "q4_1"}, {}};
    case WeightType::q5_0:
      return {{6, "q5_0"}, {206, "q5_0_r4"}};
    case WeightType::q5_1:
      return {{7, "q5_1"}, {}};
    case WeightType::q8_0:
      return {{8, "q8_0"}, {208, "q8_0_r8"}};
    case WeightType::q2_k:
      return {{10, "q2_K"}, {210, "q2_k_r4"}};
    case WeightType::q3_k:
      return {{11, "q3_K"}, {211, "q3_k_r4"}};
    case WeightType::q4_k:
      return {{12, "q4_K"}, {212, "q4_k_r4"}};
    case WeightType::q5_k:
      return {{13, "q5_K"}, {213, "q5_k_r4"}};
    case WeightType::q6_k:
      return {{14, "q6_K"}, {214, "q6_k_r4"}};
    case WeightType::iq4_nl:
      return {{20, "iq4_nl"}, {220, "iq4_nl_r4"}};
    case WeightType::iq4_xs:
      return {{23, "iq4_xs"}, {223, "iq4_xs_r8"}};
    case WeightType::mlx4:
      return {{2, "q4_0"}, {202, "q4_0_r8"}, false};
    case WeightType::mlx8:
      return {{8, "q8_0"}, {208, "q8_0_r8"}, false};
    default:
      return {};
  }
}

Peer::Peer() : functions_(std::make_unique<Functions>()) {}
Peer::Peer(Peer&& other) noexcept = default;
Peer& Peer::operator=(Peer&& other) noexcept = default;
Peer::~Peer() = default;

Result<Peer> Peer::load(const std::string& path) {
  // Never closed: its threads' libraries do not like to be unloaded.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(Errc::io, fmt::format("cannot load: {}", dlerror()), "--ik");
  Peer peer;
  Functions& functions = *peer.functions_;
  const auto find = [&](auto& function, const char* name) -> Status {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) {
      return fail(Errc::unsupported, fmt::format("{} has no {}", path, name), "--ik");
    }
    std::memcpy(&function, &symbol, sizeof symbol);
    return {};
  };
  TRY(find(functions.init, "ggml_init"));
  TRY(find(functions.traits, "ggml_internal_get_type_traits"));
  TRY(find(functions.row_size, "ggml_row_size"));
  TRY(find(functions.quantize_chunk, "ggml_quantize_chunk"));
  TRY(find(functions.multiply, "iqk_mul_mat"));
  TRY(find(functions.attend, "iqk_flash_attn_noalibi"));
  bool (*has_avx512)() = nullptr;
  TRY(find(has_avx512, "iqk_has_fancy_simd"));
  functions.init({1024, nullptr, false});  // fills its tables
  peer.is_avx512_ = has_avx512();
  for (const WeightType type : {WeightType::q4_0, WeightType::q8_0, WeightType::q6_k}) {
    const PeerForms forms = peer_forms(type);
    const std::size_t want = kernels::file_row_bytes(type, 512);
    if (!peer.knows(forms.plain) || peer.row_bytes(forms.plain.id, 512) != want) {
      return fail(Errc::unsupported,
                  fmt::format("{}: type {} is not '{}' of {} bytes per 512 columns", path,
                              forms.plain.id, forms.plain.name, want),
                  "--ik");
    }
  }
  return peer;
}

bool Peer::knows(const PeerType& type) const {
  if (type.id < 0) return false;
  const Traits traits = functions_->traits(type.id);
  return traits.name != nullptr && std::strcmp(traits.name, type.name) == 0 && traits.dot_type >= 0;
}

std::size_t Peer::row_bytes(int type, int columns) const {
  return functions_->row_size(type, columns);
}

int Peer::activation_type(int type) const {
  return functions_->traits(type).dot_type;
}

bool Peer::quantize_activations(int type, const float* x, int columns, void* out) const {
  const Traits traits = functions_->traits(type);
  if (traits.from_float == nullptr) return false;
  traits.from_float(x, out, columns);
  return true;
}

void Peer::quantize_weights(int type, const float* x, int rows, int columns, void* out) const {
  const std::vector<float> importance(static_cast<std::size_t>(columns), 1.0f);
  functions_->quantize_chunk(type, x, out, 0, rows, columns, importance.data());
}

bool Peer::multiply(int rows_a, int rows_b, int columns, int type_a, const void* a, int type_b,
                    const void* b, float* out) const {
  return functions_->multiply(rows_a, rows_b, columns, type_a, a,
                              static_cast<long>(row_bytes(type_a, columns)), type_b, b,
                              static_cast<long>(row_bytes(type_b, columns)), out, rows_a, 0, 1);
}

bool Peer::attend(const PeerAttention& a, float scale) const {
  const long head_q = 4L * a.head_dim, row_q = head_q * a.heads;
  const long head_k = 2L * a.head_dim, row_k = head_k * a.kv_heads;
  return functions_->attend(
      0, kPeerF16.id, 0.0f, 1, a.heads, row_q * a.queries, head_q, 1, a.kv_heads,
      row_k * a.positions, head_k, 1, a.kv_heads, row_k * a.positions, head_k, a.queries, a.heads,
      head_q, kPeerF16.id, kPeerF16.id, a.head_dim, a.head_dim, a.queries, a.positions,
      static_cast<int>(row_q), static_cast<int>(row_k), static_cast<int>(row_k), 2 * a.positions,
      a.q, a.keys, a.values, a.mask, nullptr, scale, 0.0f, a.out, a.work, [](void*) {}, nullptr, 0,
      1, 0);
}

}  // namespace reprise::bench
