#include "weft/program/graph_facts.h"

#include <algorithm>
#include <map>

#include "weft/program/lower.h"

namespace weft {
namespace {

bool are_alike(const Graph& graph, const Node& a, const Node& b) {
  const auto same_type = [&](ValueId x, ValueId y) {
    return graph.values[x].type == graph.values[y].type;
  };
  return std::ranges::equal(a.inputs, b.inputs, same_type) &&
         std::ranges::equal(a.outputs, b.outputs, same_type) && a.attrs == b.attrs;
}

}  // namespace

GraphFacts::GraphFacts(const Graph& of, const OpTable& table)
    : graph(of),
      ops(table),
      users(weft::users(of)),
      repeated(repeated_values(of, table, users)),
      parameters(values_of_kind(of, ValueKind::parameter)) {
  std::map<std::string_view, std::vector<NodeId>> first_by_op;  // the first node of each kind
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    op.push_back(&find_op(ops, node.op));
    layer.push_back(layer_of(node.name));
    kind.push_back(-1);
    if (is_accumulate(node)) {
      accumulates.push_back(static_cast<NodeId>(n));
    } else if (node.role != Role::update) {
      std::vector<NodeId>& firsts = first_by_op[node.op];
      const auto like = std::ranges::find_if(
          firsts, [&](NodeId first) { return are_alike(graph, graph.nodes[first], node); });
      if (like == firsts.end()) {
        kind[n] = static_cast<int>(factors.size());
        factors.push_back(factors_of(ops, graph, node));
        firsts.push_back(static_cast<NodeId>(n));
      } else {
        kind[n] = kind[*like];
      }
    }
  }
}

}  // namespace weft
