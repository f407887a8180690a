#pragma once

#include <string>
#include <vector>

#include "weft/search/stage_table.h"

namespace weft {

/// One strategy for whole layers, as the known systems have them: what every node does on the axes
/// of a mesh.
struct LayerKind {
  std::string name;              // dp, tp, tp+sp, ulysses
  std::vector<Splits> splits;    // by node of the graph
  std::vector<Placements> lies;  // by value, for results of forward nodes; no partial sums
  bool splits_weights = false;   // along tp; if not, states may be split along all axes
};

/// The strategies that a mesh with axes dp and tp (one of them, or none) has room for: replicas
/// along both, if a micro-batch has a sample for each device; tensor parallelism along tp with and
/// without sequence parallelism; Ulysses along tp.
[[nodiscard]] std::vector<LayerKind> layer_kinds(const Graph& training, const OpTable& ops,
                                                 const Mesh& mesh, std::int64_t samples);

/// A way of a layer between two boundaries. Boundaries are numbered by the first kind that leaves
/// them like this; -1: the layer has none there.
struct KindWay {
  LayerWay way;
  int in = -1;
  int out = -1;
};

/// All ways of a layer of a stage that begins at `first`: every kind; states of replicas whole, or
/// as in ZeRO-1, 2 or 3; recomputed or not; with the boundaries of other kinds on one side.
[[nodiscard]] std::vector<KindWay> kind_ways(const BlockModel& model, const StageTable& table,
                                             const std::vector<LayerKind>& kinds, int layer,
                                             int first);

/// The fastest ways of layers in a row, each out of its own menu, within so many bytes of memory;
/// nothing if none fit.
[[nodiscard]] std::vector<LayerWay> fastest_kinds(
    const std::vector<const std::vector<KindWay>*>& menus, int in_flight, double bytes);

}  // namespace weft
