// transpose(x) -> y: dim i of y is dim perm[i] of x. A copy, so that y is contiguous.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

const Ints& checked_perm(const OpCall& call) {
  const Ints& perm = attr_ints(call.attrs, "perm");
  Ints expected(static_cast<std::size_t>(call.inputs[0].rank()));
  std::iota(expected.begin(), expected.end(), 0);
  require(std::is_permutation(perm.begin(), perm.end(), expected.begin(), expected.end()),
          "transpose: perm [{}] is no order of the dims of {}", fmt::join(perm, ","),
          format_type(call.inputs[0]));
  return perm;
}

TensorTypes infer(const OpCall& call) {
  TensorType y{{}, call.inputs[0].dtype};
  for (const std::int64_t dim : checked_perm(call)) {
    y.shape.push_back(call.inputs[0].shape[static_cast<std::size_t>(dim)]);
  }
  return {y};
}

FactorRule factors(const OpCall& call) {
  const std::string x = letters(call.inputs[0].rank());
  std::string y;
  for (const std::int64_t dim : checked_perm(call)) {
    y += y.empty() ? "" : " ";
    y += x[2 * static_cast<std::size_t>(dim)];
  }
  return {.dims = x + " -> " + y, .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  const Ints& perm = attr_ints(b.node.attrs, "perm");
  Ints inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  }
  return {b.build.emit("transpose", {b.output_grads[0]}, {{"perm", inverse}})};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

KernelSteps kernel(const OpCall& call) {
  constexpr std::int64_t kContiguous = 0;  // c10::MemoryFormat
  KernelSteps k(1);
  const KernelSlot view = k.call("aten::permute", {k.in(0), checked_perm(call)});
  k.out(k.call("aten::clone", {view, kContiguous}));
  return k;
}

}  // namespace

OpDef transpose() {
  return {.name = "transpose",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
