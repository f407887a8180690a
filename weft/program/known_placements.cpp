#include "weft/program/known_placements.h"

#include <algorithm>
#include <utility>

namespace weft {

const Splits& KnownPlacements::ruled(const NodeRule& rule, const Mesh& mesh) {
  const auto [entry, fresh] = ruled_.try_emplace(&rule);
  if (fresh) {
    entry->second = splits_for(rule, mesh);
  }
  return entry->second;
}

const Splits& KnownPlacements::followed(NodeId node, const Mesh& mesh,
                                        std::vector<Placements> inputs) {
  const int kind = facts_.kind[node];
  std::vector<Followed>& all = followed_[kind];
  const auto known = std::ranges::find_if(
      all, [&](const Followed& f) { return f.axes == mesh.axes && f.inputs == inputs; });
  if (known != all.end()) {
    return known->splits;
  }
  TensorTypes types;
  for (const ValueId v : facts_.graph.nodes[node].inputs) {
    types.push_back(facts_.graph.values[v].type);
  }
  Splits splits = follow(facts_.factors[kind], mesh, types, inputs);
  all.push_back({.axes = mesh.axes, .inputs = std::move(inputs), .splits = std::move(splits)});
  return all.back().splits;
}

std::shared_ptr<const NodePlacement> KnownPlacements::placed(NodeId node, const Mesh& mesh,
                                                             const Splits& splits) {
  const int kind = facts_.kind[node];
  std::vector<Placed>& all = placed_[kind];
  const auto known = std::ranges::find_if(
      all, [&](const Placed& p) { return p.axes == mesh.axes && p.splits == splits; });
  if (known != all.end()) {
    return known->placement;
  }
  all.push_back({.axes = mesh.axes,
                 .splits = splits,
                 .placement = std::make_shared<const NodePlacement>(place_node(
                     facts_.factors[kind], mesh, splits, facts_.graph.nodes[node].name))});
  return all.back().placement;
}

}  // namespace weft
