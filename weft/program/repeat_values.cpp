// Values that backward makes again instead of keeping them from forward: outputs of a node that
// costs one pass over memory, and whose own gradient reads all its inputs, so that these are kept
// anyway. The activation of a perceptron is such a value (its gradient reads what came in), and the
// product of a gate: the widest tensors of a block, for a percent of its time.
//
//   kept:      up, act             repeated:  up
//   backward:  dw = dyᵀ act                   act = gelu(up), dw = dyᵀ act

#include <algorithm>

#include "weft/ops/one_pass.h"
#include "weft/program/lower.h"

namespace weft {
namespace {

bool is_gradient(const Node& node) {
  return node.role == Role::input_grad || node.role == Role::weight_grad;
}

}  // namespace

std::vector<bool> repeated_values(const Graph& training, const OpTable& ops,
                                  const std::vector<std::vector<NodeId>>& readers) {
  std::vector<bool> repeated(training.values.size(), false);
  for (std::size_t n = 0; n < training.nodes.size(); ++n) {
    const Node& node = training.nodes[n];
    const OpDef& op = find_op(ops, node.op);
    if (node.role != Role::forward || node.outputs.size() != 1 || node.inputs.empty() ||
        !op.aliases.empty() || op.name == "accumulate") {
      continue;
    }
    const auto read_by = [&](ValueId value, bool own) {
      return std::ranges::any_of(readers[value], [&](NodeId reader) {
        const Node& gradient = training.nodes[reader];
        return is_gradient(gradient) && (gradient.forward == static_cast<NodeId>(n)) == own;
      });
    };
    const bool kept_inputs = std::ranges::all_of(node.inputs, [&](ValueId input) {
      return training.values[input].kind == ValueKind::result && read_by(input, true);
    });
    repeated[node.outputs[0]] = kept_inputs && !read_by(node.outputs[0], true) &&
                                read_by(node.outputs[0], false) &&
                                costs_one_pass(ops, training, node);
  }
  return repeated;
}

}  // namespace weft
