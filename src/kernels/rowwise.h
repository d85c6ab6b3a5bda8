// Row by row kernels: norms, residuals, activation functions, RoPE, reductions over logits.
#pragma once
#include "kernels/kernels.h"

namespace reprise::kernels {

namespace scalar {
void add_rowwise_kernels(KernelTable& table);
}
namespace avx2 {
void add_rowwise_kernels(KernelTable& table);
}
namespace avx512 {
void add_rowwise_kernels(KernelTable& table);
}

}  // namespace reprise::kernels
