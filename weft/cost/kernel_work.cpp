#include "weft/cost/kernel_work.h"

#include <algorithm>

namespace weft {
namespace {

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

DType arithmetic(const OpCall& call) {
  for (const TensorTypes* types : {&call.inputs, &call.outputs}) {
    for (const TensorType& type : *types) {
      if (is_floating(type.dtype)) {
        return type.dtype;
      }
    }
  }
  return DType::f32;
}

}  // namespace

KernelWork kernel_work(const OpDef& op, const OpCall& call) {
  return {.op_class = op_class(op.name), .dtype = arithmetic(call), .cost = op.cost(call)};
}

bool gives_views(const OpDef& op, std::size_t outputs) {
  const auto view = [](const Alias& alias) { return !alias.in_place; };
  return outputs > 0 && op.aliases.size() == outputs && std::ranges::all_of(op.aliases, view);
}

}  // namespace weft
