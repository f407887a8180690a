#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/cpu_kernel.h"

namespace weft::ops {

DType cpu_dtype(const KernelCall& call, std::string_view op, int i) {
  const auto index = static_cast<std::size_t>(i);
  const DType dtype = call.call.inputs.at(index).dtype;
  const at::Tensor& tensor = call.inputs[index];
  if (!tensor.is_cpu() || (dtype != DType::f32 && dtype != DType::f64)) {
    fail_environment("{}: no kernel for {} on {}; cast to f32 or run it on the CPU", op,
                     dtype_name(dtype), tensor.device().str());
  }
  return dtype;
}

}  // namespace weft::ops
