#include "weft/ops/one_pass.h"

namespace weft {

bool costs_one_pass(const OpTable& ops, const Graph& graph, const Node& node) {
  constexpr double kFlopsPerElement = 32;  // up to which a kernel waits for memory
  OpCall call = call_of(graph, node);
  for (TensorTypes* types : {&call.inputs, &call.outputs}) {
    for (TensorType& type : *types) {
      type = bind(type, 1);
    }
  }
  return find_op(ops, node.op).cost(call).flops <=
         kFlopsPerElement * static_cast<double>(call.outputs[0].elements());
}

}  // namespace weft
