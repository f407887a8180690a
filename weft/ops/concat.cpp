// concat(parts) -> x: the parts one after the other along `dim`.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

int concat_dim(const OpCall& call) {
  return dim_of(attr_int(call.attrs, "dim"), call.inputs[0].rank(), "concat");
}

TensorTypes infer(const OpCall& call) {
  TensorType x = call.inputs[0];
  const auto dim = static_cast<std::size_t>(concat_dim(call));
  require(!x.shape[dim].batched, "concat: dim {} of {} is the batch; samples cannot be joined", dim,
          format_type(x));
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    TensorType same = call.inputs[i];
    require(same.rank() == x.rank() && !same.shape[dim].batched,
            "concat: input {} is {} and input 0 is {}", i, format_type(same),
            format_type(call.inputs[0]));
    const std::int64_t length = same.shape[dim].size;
    same.shape[dim] = x.shape[dim];
    require(same == x, "concat: input {} is {} and input 0 is {}; they may differ in dim {} only",
            i, format_type(call.inputs[i]), format_type(call.inputs[0]), dim);
    x.shape[dim].size += length;
  }
  return {x};
}

FactorRule factors(const OpCall& call) {
  return partitioned_rule(call.inputs, call.outputs, concat_dim(call), "concat");
}

std::vector<ValueId> gradient(const Backward& b) {
  const int dim = dim_of(attr_int(b.node.attrs, "dim"), b.build.type(b.inputs[0]).rank(), "concat");
  Ints sizes;
  for (const ValueId input : b.inputs) {
    sizes.push_back(b.build.type(input).size(dim));
  }
  std::vector<ValueId> grads = b.build.emit_all("split", {b.output_grads[0]},
                                                {{"dim", std::int64_t{dim}}, {"sizes", sizes}});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    grads[i] = b.wanted[i] ? grads[i] : -1;
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(static_cast<int>(call.inputs.size()));
  std::vector<KernelSlot> parts;
  for (int i = 0; i < k.inputs(); ++i) {
    parts.push_back(k.in(i));
  }
  k.out(k.call("aten::cat", {parts, std::int64_t{concat_dim(call)}}));
  return k;
}

}  // namespace

OpDef concat() {
  return {.name = "concat",
          .min_inputs = 1,
          .max_inputs = -1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
