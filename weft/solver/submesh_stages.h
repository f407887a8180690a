#pragma once

#include <functional>
#include <limits>
#include <vector>

namespace weft {

/// Layers are cut into stages, and each stage gets a part of the devices. Stage i of S has
/// min(micro_batches, S - i) micro-batches in flight.
struct SubmeshProblem {
  int places = 1;          // a stage [i, j) begins and ends at places 0 <= i < j <= places
  int devices = 1;         // all are used
  std::vector<int> sizes;  // devices that a stage may have
  int micro_batches = 1;
  int most_stages = 1;
  /// Of a micro-batch, by number of the size, begin, end and micro-batches in flight; infinite if
  /// it does not fit. Does not fall with the end.
  std::function<double(int, int, int, int)> seconds;
};

struct SubmeshStage {
  int size = 0;  // number of the size
  int begin = 0;
  int end = 0;
};

struct SubmeshAnswer {
  double seconds = std::numeric_limits<double>::infinity();  // if nothing fits
  std::vector<SubmeshStage> stages;
};

/// The least sum of t + (micro_batches - 1) max t over all cuts and sizes: exact.
[[nodiscard]] SubmeshAnswer best_submeshes(const SubmeshProblem& problem);

}  // namespace weft
