#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/ops/op.h"

namespace at {
class Tensor;
}

namespace weft {

/// What a kernel that is code gets. All tensors are contiguous, inputs and outputs alike.
struct KernelCall {
  const OpCall& call;
  const KernelEnv& env;
  std::span<const at::Tensor> inputs;
};

using KernelFn = std::vector<at::Tensor> (*)(const KernelCall&);

/// Kernels in ops/*.aten.cpp, by op name.
[[nodiscard]] const std::map<std::string, KernelFn, std::less<>>& coded_kernels();

}  // namespace weft
