#pragma once

#include "weft/ops/op.h"
#include "weft/program/program.h"

namespace weft {

/// The call that a compute instruction makes. `type_of(slot)` gives a slot's local type. The
/// outputs that a run of a ring goes on from are no inputs of the op.
template <typename TypeOf>
[[nodiscard]] OpCall local_call(const Graph& graph, const Instruction& compute, TypeOf&& type_of) {
  const Node& node = graph.nodes[compute.node];
  OpCall call{.inputs = {}, .outputs = {}, .attrs = node.attrs, .ring_step = compute.ring_step};
  const std::size_t inputs = compute.ring_step > 0
                                 ? node.inputs.size()
                                 : compute.reads.size();  // a stage may read some only
  for (std::size_t i = 0; i < inputs; ++i) {
    call.inputs.push_back(type_of(compute.reads[i]));
  }
  for (const SlotId slot : compute.writes) {
    call.outputs.push_back(type_of(slot));
  }
  return call;
}

}  // namespace weft
