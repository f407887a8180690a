// The splits of a node that follow from where its inputs already lie: docs/spec/sharding.md,
// "follow".
#include <algorithm>
#include <optional>
#include <tuple>

#include "weft/base/error.h"
#include "weft/sharding/propagate.h"
#include "weft/sharding/reshard.h"

namespace weft {
namespace {

using Kind = Placement::Kind;

// Samples that a batched dim is taken to have when bytes of activations and of parameters are
// compared. The choice must not depend on the micro-batch, or micro-batches would be lowered
// unlike.
constexpr std::int64_t kAssumedBatch = 8;

/// An input that lies somewhere, seen from one axis.
struct Known {
  std::size_t input = 0;
  Placement from = {};
  double bytes = 0;  // of the whole tensor along this axis, split as it is along the others
};

std::vector<Known> known_inputs(const Mesh& mesh, std::size_t axis, const TensorTypes& types,
                                const std::vector<Placements>& inputs) {
  std::vector<Known> known;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].empty()) {
      continue;
    }
    double bytes = static_cast<double>(bind(types[i], kAssumedBatch).bytes());
    for (std::size_t other = 0; other < mesh.axes.size(); ++other) {
      if (other != axis && inputs[i][other].kind == Kind::shard) {
        bytes /= mesh.axes[other].size;
      }
    }
    known.push_back({.input = i, .from = inputs[i][axis], .bytes = bytes});
  }
  return known;
}

/// Bytes received to change the placement on one axis. Nothing becomes a partial sum.
double conversion_bytes(const Known& known, const Placement& to, int members) {
  double bytes = 0;
  for (const ReshardStep& step : reshard_path({known.from}, {to})) {
    const bool local = step.kind == CollectiveKind::all_to_all;
    bytes += wire_bytes(step.kind, members, local ? known.bytes / members : known.bytes);
  }
  return bytes;
}

struct Score {
  double bytes = 0;
  int conversions = 0;
  [[nodiscard]] bool operator<(const Score& other) const {
    return std::tie(bytes, conversions) < std::tie(other.bytes, other.conversions);
  }
};

/// What a split costs, or nothing if it is no candidate. A factor needs a witness: an input that
/// already lies in parts of it. Otherwise a partial sum would be scattered along a dim that nobody
/// asked for, only to be gathered by the next node.
std::optional<Score> score(const Factors& factors, const Axis& axis, const Split& split,
                           const std::vector<Known>& known) {
  const Mesh line{.devices = {}, .axes = {axis}};
  const NodePlacement placed = place_node(factors, line, {split}, "follow");
  Score result;
  bool witness = split.kind != Split::Kind::factor;
  for (const Known& input : known) {
    const Placement& to = placed.inputs[input.input].front();
    result.bytes += conversion_bytes(input, to, axis.size);
    result.conversions += input.from == to ? 0 : 1;
    witness = witness || (to.kind == Kind::shard && input.from.kind == Kind::shard &&
                          input.from.dim == to.dim);
  }
  return witness ? std::optional(result) : std::nullopt;
}

/// Whether every input of a set is known to be a partial sum. What is unknown (a parameter, an
/// input of the graph) never is one.
bool all_partial(const std::vector<int>& set, const std::vector<Known>& known) {
  return std::all_of(set.begin(), set.end(), [&](int i) {
    return std::any_of(known.begin(), known.end(), [&](const Known& input) {
      return input.input == static_cast<std::size_t>(i) && input.from == partial();
    });
  });
}

/// None first, then factors in rule order, then linear sets: the earlier one wins a tie.
Splits candidates(const Factors& factors, int axis_size, const std::vector<int>& parts_before,
                  const std::vector<Known>& known) {
  Splits result{Split{}};
  for (std::size_t f = 0; f < factors.factors.size(); ++f) {
    if (can_split(factors, static_cast<int>(f), axis_size * parts_before[f])) {
      result.push_back(split_factor(factors.factors[f].letter));
    }
  }
  for (std::size_t set = 0; set < factors.linear.size(); ++set) {
    if (all_partial(factors.linear[set], known)) {
      result.push_back({.kind = Split::Kind::linear, .linear_set = static_cast<int>(set)});
    }
  }
  return result;
}

}  // namespace

Splits follow(const Factors& factors, const Mesh& mesh, const TensorTypes& input_types,
              const std::vector<Placements>& inputs) {
  WEFT_CHECK(inputs.size() == factors.inputs.size() && input_types.size() == inputs.size());
  for (const Placements& placements : inputs) {
    WEFT_CHECK(placements.empty() || placements.size() == mesh.axes.size());
  }
  Splits splits;
  std::vector<int> parts(factors.factors.size(), 1);  // of each factor, by the axes so far
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::vector<Known> known = known_inputs(mesh, axis, input_types, inputs);
    Split best;
    std::optional<Score> best_score;
    for (const Split& split : candidates(factors, mesh.axes[axis].size, parts, known)) {
      const std::optional<Score> found = score(factors, mesh.axes[axis], split, known);
      if (found && (!best_score || *found < *best_score)) {
        best = split;
        best_score = found;
      }
    }
    if (best.kind == Split::Kind::factor) {
      parts[static_cast<std::size_t>(find_factor(factors, best.letter))] *= mesh.axes[axis].size;
    }
    splits.push_back(best);
  }
  return splits;
}

}  // namespace weft
