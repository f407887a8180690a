#pragma once

#include <string_view>

#include "weft/graph/type.h"

namespace weft {
struct KernelCall;  // kernels/kernel.h
}

namespace weft::ops {

/// The dtype of input i, which is f32 or f64. Throws Error{environment} for other dtypes and for
/// tensors that are not on the CPU: the op has no kernel for them.
[[nodiscard]] DType cpu_dtype(const KernelCall& call, std::string_view op, int i);

}  // namespace weft::ops
