// The kernels of ik_llama.cpp, called in its shared library on the same shapes and the same
// weights. Their declarations are ours, from its documentation of the C interface; nothing of it is
// needed to build, and a library that does not answer as expected is refused.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "kernels/weight_type.h"

namespace reprise::bench {

// A type of the peer's: its number and its own name for it.
struct PeerType {
  int id = -1;
  const char* name = nullptr;
};
// How the peer may hold our type: as the file does, and with rows interleaved for its kernels.
// MLX types are compared with its nearest format of as many bits.
struct PeerForms {
  PeerType plain;
  PeerType packed;
  bool same_bytes = true;  // plain is our file's bytes
};
PeerForms peer_forms(kernels::WeightType type);

inline constexpr PeerType kPeerF16{1, "f16"};

// Attention as the peer wants it; strides in bytes. Keys and values are halves.
struct PeerAttention {
  int heads = 0, kv_heads = 0, head_dim = 0, queries = 0, positions = 0;
  const float* q = nullptr;             // [queries, heads, head_dim]
  const std::uint16_t* keys = nullptr;  // [positions, kv_heads, head_dim]
  const std::uint16_t* values = nullptr;
  const std::uint16_t* mask = nullptr;  // [queries, positions]: 0 or -infinity
  float* out = nullptr;                 // [queries, heads, head_dim]
  void* work = nullptr;                 // 16 MB
};

class Peer {
 public:
  // Errors: io when the library cannot be loaded, unsupported when it is not what we know.
  static Result<Peer> load(const std::string& path);
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&& other) noexcept;
  ~Peer();

  // Whether it was built for AVX-512 with VNNI.
  bool is_avx512() const { return is_avx512_; }
  // Whether the library knows the type by this number and name.
  bool knows(const PeerType& type) const;
  std::size_t row_bytes(int type, int columns) const;
  int activation_type(int type) const;
  // False: the type has no such function.
  bool quantize_activations(int type, const float* x, int columns, void* out) const;
  void quantize_weights(int type, const float* x, int rows, int columns, void* out) const;
  // out: [rows of b, rows of a]. False: it has no kernel for this.
  bool multiply(int rows_a, int rows_b, int columns, int type_a, const void* a, int type_b,
                const void* b, float* out) const;
  bool attend(const PeerAttention& attention, float scale) const;

 private:
  struct Traits;
  struct Functions;
  Peer();
  std::unique_ptr<Functions> functions_;
  bool is_avx512_ = false;
};

}  // namespace reprise::bench
