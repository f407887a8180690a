#pragma once

#include "weft/cost/op_class.h"
#include "weft/ops/op.h"

namespace weft {

/// What a kernel does.
struct KernelWork {
  OpClass op_class = OpClass::stream;
  DType dtype = DType::f32;  // of its arithmetic: that of the first floating operand
  Cost cost = {};
};
[[nodiscard]] KernelWork kernel_work(const OpDef& op, const OpCall& call);

/// Whether the op's outputs are only other names of inputs, as those of reshape: no kernel runs.
[[nodiscard]] bool gives_views(const OpDef& op, std::size_t outputs);

}  // namespace weft
