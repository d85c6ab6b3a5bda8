// Attention over pages of keys and values, and the store that fills them.
#pragma once
#include "kernels/kernels.h"

namespace reprise::kernels {

// Running maximum before any visible position: no score is smaller, and e^(it - score) is 0.
inline constexpr float kEmptyMaximum = -3.40282347e38f;

namespace scalar {
void add_attention_kernels(KernelTable& table);
}
namespace avx2 {
void add_attention_kernels(KernelTable& table);
}
namespace avx512 {
void add_attention_kernels(KernelTable& table);
}

}  // namespace reprise::kernels
