// split(x) -> parts along `dim`, of the given `sizes`. The parts are copies, so that they are
// contiguous.
#include <fmt/format.h>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

int split_dim(const OpCall& call) {
  return dim_of(attr_int(call.attrs, "dim"), call.inputs[0].rank(), "split");
}

TensorTypes infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const auto dim = static_cast<std::size_t>(split_dim(call));
  const Ints& sizes = attr_ints(call.attrs, "sizes");
  require(!x.shape[dim].batched, "split: dim {} of {} is the batch, which has no fixed parts", dim,
          format_type(x));
  std::int64_t rest = x.shape[dim].size;
  for (const std::int64_t size : sizes) {
    rest = size > 0 && size <= rest ? rest - size : -1;
  }
  require(!sizes.empty() && rest == 0, "split: sizes [{}] do not make up dim {} of {}",
          fmt::join(sizes, ","), dim, format_type(x));
  TensorTypes parts(sizes.size(), x);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts[i].shape[dim] = Dim(sizes[i]);
  }
  return parts;
}

FactorRule factors(const OpCall& call) {
  return partitioned_rule(call.inputs, call.outputs, split_dim(call), "split");
}

// A part that nothing flows back through contributes zeros.
std::vector<ValueId> gradient(const Backward& b) {
  std::vector<ValueId> grads = b.output_grads;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i] < 0) {
      grads[i] = b.build.emit("scale", {b.outputs[i]}, {{"value", 0.0}});
    }
  }
  return {b.build.emit("concat", grads, {{"dim", attr_int(b.node.attrs, "dim")}})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

KernelSteps kernel(const OpCall& call) {
  constexpr std::int64_t kContiguous = 0;  // c10::MemoryFormat
  const int dim = split_dim(call);
  KernelSteps k(1);
  std::int64_t begin = 0;
  for (const TensorType& part : call.outputs) {
    const KernelSlot view =
        k.call("aten::narrow", {k.in(0), std::int64_t{dim}, begin, part.size(dim)});
    k.out(k.call("aten::clone", {view, kContiguous}));
    begin += part.size(dim);
  }
  return k;
}

}  // namespace

OpDef split() {
  return {.name = "split",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
