#include "weft/kernels/torch_headers.h"

#include <cmath>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"

namespace weft::ops {

// A norm that is not a number gives a scale that is none: a broken step must not look like a good
// one.
Tensors clip_scale_kernel(const KernelCall& call) {
  const double norm = std::sqrt(call.inputs[0].item<double>());
  const double scale = attr_number(call.call.attrs, "max_norm") / (norm + 1e-6);
  return {at::scalar_tensor(scale >= 1 ? 1.0 : scale, call.inputs[0].options())};
}

}  // namespace weft::ops
