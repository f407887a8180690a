#pragma once

#include <functional>
#include <vector>

namespace weft {

/// Layers in a row, to be cut into stages of at least one layer each.
struct LayerMoves {
  using StepSeconds = std::function<double(const std::vector<double>&, const std::vector<int>&)>;
  using LeastSeconds = std::function<double(const std::vector<double>&)>;
  int layers = 0;
  /// By stage, its first layer and the first behind it; infinite: it does not fit.
  std::function<double(int, int, int)> stage_s;
  /// What a cut takes, from the seconds of its stages and the first layer behind each.
  StepSeconds step_s;
  /// The same or less from the seconds alone, quicker to find; may be missing.
  LeastSeconds least_s = {};
  /// By stage: stages of a mesh share its time.
  std::vector<int> mesh_of;
};

/// Improves a cut, `ends[s]` being the first layer behind stage s, until no layer is worth moving
/// from one stage to another, or so many moves were tried. Deterministic. Returns what the cut
/// takes; no more than before.
double improve_cut(const LayerMoves& problem, int effort, std::vector<int>& ends);

}  // namespace weft
