#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/ops/op.h"
#include "weft/plan/pins.h"

namespace weft {

/// Forward node → its gradient nodes, in order.
[[nodiscard]] std::vector<std::vector<NodeId>> gradient_nodes(const Graph& training);

/// What pins want of a forward node of a layer.
struct PinnedNode {
  std::optional<NodeRule> split;
  std::map<int, std::map<std::string, WeightMode>> modes;  // by input that is a parameter: by axis
  std::vector<std::optional<NodeRule>> gradients = {};     // of its gradient nodes, if pinned
  bool again = false;  // backward computes its values again, though not the whole layer
  bool operator==(const PinnedNode&) const;
};

/// What pins want of a layer.
struct PinnedLayer {
  std::vector<PinnedNode> nodes;  // in the order of its forward nodes; empty: nothing is pinned
  bool gradients = false;         // its gradient nodes are pinned: those without a rule follow
  std::optional<bool> recompute;
  bool operator==(const PinnedLayer&) const = default;
};
/// By axis: the modes of a parameter that a node reads, as pinned, or else those that are chosen.
[[nodiscard]] std::vector<WeightMode> modes_on(const Mesh& mesh, const PinnedNode& node, int input,
                                               const std::vector<WeightMode>& chosen);

/// By name, only those that are pinned. What is said of a parameter holds for all layers that use
/// it.
[[nodiscard]] std::map<std::string, PinnedLayer> pinned_layers(const Pins& pins,
                                                               const Graph& training);

/// Names, axes and factors that do not exist, layers that are pinned twice.
[[nodiscard]] std::vector<std::string> violations(const Pins& pins, const Graph& training,
                                                  const OpTable& ops);

/// Why layers cannot run on a mesh as they are pinned: it lacks an axis, or has another size of
/// one. Empty: they can.
[[nodiscard]] std::string why_not_on(const Mesh& mesh, const Pins& pins, const Graph& training,
                                     const OpTable& ops);

/// Whether a plan has everything that is pinned.
[[nodiscard]] bool has_pinned(const Plan& plan, const Pins& pins, const Graph& training);

}  // namespace weft
