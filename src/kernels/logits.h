// Kernels over one row of logits, for the sampler.
#pragma once
#include "kernels/kernels.h"

namespace reprise::kernels {

namespace scalar {
void add_logits_kernels(KernelTable& table);
}
namespace avx2 {
void add_logits_kernels(KernelTable& table);
}

}  // namespace reprise::kernels
