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

/// Whether the parts are the same but for units, which are settled when all axes are known.
bool same_parts(const Placement& a, const Placement& b) {
  return a == b ||
         (a.kind == Kind::shard && b.kind == Kind::shard && a.dim == b.dim && a.ratios == b.ratios);
}

/// Bytes received to change the placement on one axis. Nothing becomes a partial sum.
double conversion_bytes(const Known& known, const Placement& to, int members) {
  double bytes = 0;
  if (same_parts(known.from, to)) {
    return 0;
  }
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
    result.conversions += same_parts(input.from, to) ? 0 : 1;
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

/// The splits of a factor that known inputs lie in already. An input's ratios are those of the
/// factor's items, its unit a multiple of what stands behind the factor in the dim.
Splits witnessed(const Factors& factors, int factor, const std::vector<Known>& known) {
  Splits result;
  for (const Known& input : known) {
    if (input.from.kind != Kind::shard) {
      continue;
    }
    std::int64_t minor = 1;
    bool found = false;
    for (const int f : factors.inputs[input.input][static_cast<std::size_t>(input.from.dim)]) {
      minor *= found ? factors.factors[static_cast<std::size_t>(f)].size.size : 1;
      found = found || f == factor;
    }
    const Factors::Factor& item = factors.factors[static_cast<std::size_t>(factor)];
    Split split = split_factor(item.letter);
    split.ratios = input.from.ratios;
    const std::int64_t one = minor * (item.size.batched ? item.size.size : 1);
    split.unit = input.from.unit % one == 0 ? input.from.unit / one : 1;
    if (found && std::find(result.begin(), result.end(), split) == result.end()) {
      result.push_back(std::move(split));
    }
  }
  return result;
}

/// None first, then factors in rule order, then linear sets: the earlier one wins a tie.
Splits candidates(const Factors& factors, const std::vector<Known>& known) {
  Splits result{Split{}};
  for (std::size_t f = 0; f < factors.factors.size(); ++f) {
    if (is_splittable(factors, static_cast<int>(f))) {
      const Splits splits = witnessed(factors, static_cast<int>(f), known);
      result.insert(result.end(), splits.begin(), splits.end());
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
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::vector<Known> known = known_inputs(mesh, axis, input_types, inputs);
    Split best;
    std::optional<Score> best_score;
    for (const Split& split : candidates(factors, known)) {
      const std::optional<Score> found = score(factors, mesh.axes[axis], split, known);
      if (found && (!best_score || *found < *best_score)) {
        best = split;
        best_score = found;
      }
    }
    splits.push_back(best);
  }
  return splits;
}

}  // namespace weft
