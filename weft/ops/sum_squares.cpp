// sum_squares(x...) -> y[]: the sum of the squares of all elements, for the norm of the gradients.
// Summed in f64. A device counts only the inputs that KernelEnv::counted names, so that replicas
// are counted once. Kernel: sum_squares.aten.cpp.
#include <map>
#include <tuple>

#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  for (int i = 0; i < static_cast<int>(call.inputs.size()); ++i) {
    require_floating(call, "sum_squares", i);
    require(call.inputs[static_cast<std::size_t>(i)].dtype == call.inputs[0].dtype,
            "sum_squares: inputs 0 and {} are {} and {}; they must have one dtype", i,
            format_type(call.inputs[0]), format_type(call.inputs[static_cast<std::size_t>(i)]));
  }
  return {{{}, sum_dtype(call.inputs[0].dtype)}};
}

// Each input has letters of its own while there are enough (the models of tests); else the i-th
// dims of one length share a letter, which then stays whole. Lowering takes gradients as they lie
// and reduces over all devices, so plans are the same.
FactorRule factors(const OpCall& call) {
  constexpr int kMostLetters = 52;
  int dims = 0;
  for (const TensorType& x : call.inputs) {
    dims += x.rank();
  }
  const bool shared = dims > kMostLetters;
  Letters names;
  std::map<std::tuple<std::int64_t, bool, int, std::size_t>, char> known;
  FactorRule rule;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    rule.dims += i == 0 ? "" : ", ";
    for (int d = 0; d < call.inputs[i].rank(); ++d) {
      const Dim dim = call.inputs[i].shape[static_cast<std::size_t>(d)];
      char& letter = known[{dim.size, dim.batched, d, shared ? 0 : i}];
      if (letter == 0) {
        letter = names.next("sum_squares");
        rule.whole += shared ? std::string(1, letter) : "";
      }
      rule.dims += letter;
      rule.dims += ' ';
    }
  }
  rule.dims += "-> ";
  return rule;
}

Cost cost(const OpCall& call) {
  Cost total = streaming_cost(call, 0);
  for (const TensorType& x : call.inputs) {
    total.flops += 2 * static_cast<double>(x.elements());
  }
  return total;
}

}  // namespace

OpDef sum_squares() {
  return {.name = "sum_squares",
          .min_inputs = 1,
          .max_inputs = -1,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it measures gradients; nothing is differentiated through it",
          .cost = cost};
}

}  // namespace weft::ops
