#pragma once

#include <functional>
#include <limits>
#include <vector>

namespace weft {

/// Layers in a row are cut into stages, and each stage takes a run of devices in a row: part of one
/// host, or whole hosts. Devices may stay idle.
struct MeshCutProblem {
  int layers = 0;
  int micro_batches = 1;
  std::vector<int> hosts = {};  // devices of each
  std::vector<int> sizes = {};  // devices that a stage may have
  int fewest_stages = 1;
  int most_stages = 1;
  /// Of a micro-batch in a stage of `size` (by place in `sizes`) with so many stages behind it and
  /// layers [first, end). Does not fall where layers are added; infinite: it does not fit.
  std::function<double(int size, int behind, int first, int end)> seconds = {};
  /// By first * (layers + 1) + end of a run of layers: where the run begins that is asked for its
  /// seconds instead, one of as many layers that takes as long in every stage. Empty: none is
  /// alike.
  std::vector<int> like = {};
  /// Of sending a micro-batch from a stage of `size` to the one that begins with `layer`; as much
  /// comes back.
  std::function<double(int size, int layer)> send_seconds = {};
  double precision = 0;  // how much slower than the best the answer may be
};

struct MeshCutStage {
  int first = 0;  // layers [first, end)
  int end = 0;
  int size = 0;          // by place in `sizes`
  int first_device = 0;  // counted over all hosts
  bool operator==(const MeshCutStage&) const = default;
};

struct MeshCut {
  double step_s = std::numeric_limits<double>::infinity();  // infinite: nothing fits
  std::vector<MeshCutStage> stages = {};
};

/// The cut with the shortest step, as mesh_cut.cpp defines it. Of equal ones the first that is
/// found: the same problem has the same answer.
[[nodiscard]] MeshCut best_mesh_cut(const MeshCutProblem& problem);

/// Where runs of these sizes begin if each takes the first devices it may have; empty: there are
/// too few. If they fit at all, they fit like this.
[[nodiscard]] std::vector<int> place_runs(const std::vector<int>& hosts,
                                          const std::vector<int>& sizes);

}  // namespace weft
