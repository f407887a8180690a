// accumulate(g...) -> acc: the sum of the inputs and of all micro-batches of a step. Lowering turns
// it into an instruction of its own; the kernel here is that of one micro-batch.
#include <numeric>

#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  require_floating(call, "accumulate", 0);
  for (int i = 1; i < static_cast<int>(call.inputs.size()); ++i) {
    require_same_type(call, "accumulate", 0, i);
  }
  const TensorType& g = call.inputs[0];
  const DType dtype = parse_dtype(attr_text(call.attrs, "dtype"));
  require(is_floating(dtype) && (dtype == g.dtype || element_bytes(dtype) > element_bytes(g.dtype)),
          "accumulate: {} cannot hold sums of {}; take a wider dtype", dtype_name(dtype),
          format_type(g));
  return {{g.shape, dtype}};
}

FactorRule factors(const OpCall& call) {
  std::vector<int> all(call.inputs.size());
  std::iota(all.begin(), all.end(), 0);
  return {.dims = elementwise_dims(call), .linear = {all}};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, static_cast<double>(call.inputs.size()));
}

// ATen casts a whole operand before it adds.
std::int64_t workspace(const OpCall& call) {
  const bool casts = call.inputs.size() > 1 && call.inputs[0].dtype != call.outputs[0].dtype;
  return casts ? call.outputs[0].bytes() : 0;
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(static_cast<int>(call.inputs.size()));
  KernelSlot sum = k.call("aten::_to_copy",
                          {k.in(0), call.outputs[0].dtype, None{}, None{}, None{}, false, None{}});
  for (int i = 1; i < k.inputs(); ++i) {
    sum = k.call("aten::add_.Tensor", {sum, k.in(i), std::int64_t{1}});
  }
  k.out(sum);
  return k;
}

}  // namespace

OpDef accumulate() {
  return {.name = "accumulate",
          .min_inputs = 1,
          .max_inputs = -1,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it sums gradients; only the update reads it",
          .cost = cost,
          .workspace = workspace,
          .kernel = kernel};
}

}  // namespace weft::ops
