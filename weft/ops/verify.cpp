#include "weft/ops/verify.h"

#include "weft/ops/rules.h"

namespace weft {
namespace {

void check_node(const Graph& graph, const Node& node, const OpTable& ops,
                std::vector<std::string>& found) {
  const OpCall call = call_of(graph, node);
  TensorTypes types;
  try {
    types = ops::checked_infer(find_op(ops, node.op),
                               {.inputs = call.inputs, .outputs = {}, .attrs = call.attrs});
  } catch (const Error& error) {
    found.push_back(fmt::format("node '{}': {}", node.name, error.what()));
    return;
  }
  if (types.size() != call.outputs.size()) {
    found.push_back(fmt::format("node '{}': {} has {} outputs, but {} are given", node.name,
                                node.op, types.size(), call.outputs.size()));
    return;
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != call.outputs[i]) {
      found.push_back(fmt::format("node '{}': output {} is {}, but {} gives {}", node.name, i,
                                  format_type(call.outputs[i]), node.op, format_type(types[i])));
    }
  }
}

}  // namespace

std::vector<std::string> violations(const Graph& graph, const OpTable& ops) {
  std::vector<std::string> found = structural_violations(graph);
  if (!found.empty()) {
    return found;  // ids may point anywhere: types cannot be looked up
  }
  for (const Node& node : graph.nodes) {
    check_node(graph, node, ops, found);
  }
  return found;
}

}  // namespace weft
