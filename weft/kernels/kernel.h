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
  /// Where outputs go: one tensor an output, undefined where the kernel makes its own, or none at
  /// all. A destination is the storage of an input that the op may overwrite.
  std::span<const at::Tensor> out = {};
};

/// The tensor for an output: its destination if it has one, else a fresh one of its type.
[[nodiscard]] at::Tensor output_of(const KernelCall& call, int output);

using KernelFn = std::vector<at::Tensor> (*)(const KernelCall&);

/// Kernels in ops/*.aten.cpp, by op name.
[[nodiscard]] const std::map<std::string, KernelFn, std::less<>>& coded_kernels();

}  // namespace weft
