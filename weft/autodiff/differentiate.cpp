#include "weft/autodiff/differentiate.h"

#include "weft/autodiff/backward.h"
#include "weft/autodiff/update.h"
#include "weft/base/error.h"

namespace weft {

ValueId append_loss_sum(Builder& build, ValueId loss) {
  Graph& graph = build.graph();
  for (Value& value : graph.values) {
    if (value.name == "loss") {
      value.name = "loss.part";
    }
  }
  const std::string& producer = graph.nodes[graph.values[loss].producer].name;
  build.set_scope(std::string(layer_of(producer)));
  const std::string dtype(dtype_name(build.type(loss).dtype));
  const ValueId sum = build.emit("accumulate", {loss}, {{"dtype", dtype}}, "loss_sum");
  graph.values[sum].name = "loss";
  return sum;
}

Graph training_graph(const Graph& forward, const OptimizerSpec& optimizer, const OpTable& ops) {
  require(forward.loss >= 0, "the model has no loss to train on");
  const Value& loss = forward.values[forward.loss];
  require(loss.type.rank() == 0 && loss.producer >= 0,
          "the loss '{}' is {}; it must be a computed scalar", loss.name, format_type(loss.type));
  Graph graph = forward;
  Builder build(graph, ops);
  graph.loss = append_loss_sum(build, forward.loss);
  const std::vector<ParameterGradient> gradients = append_backward(build, forward.loss);
  require(!gradients.empty(),
          "the loss does not depend on any parameter, or every parameter it depends on is frozen; "
          "there is nothing to train");
  append_update(build, gradients, optimizer);
  return graph;
}

}  // namespace weft
