// Is there a plan of which no stage needs more than r? With reach(j) the most layers that the first
// j devices can take,
//
//     reach(j) = max( reach(j - 1),  max over n of farthest(reach(j - n), n) )
//
// where farthest(l, n) is the end of the longest stage from l on n devices that needs at most r.
// All that a stage needs grows with its layers, so bisection finds it, and it is never better to
// start earlier: the answer is exact for any layers. Memory counts one micro-batch in flight, which
// every schedule has; transfers are left out. The least r is found by bisection, between the work
// of all devices together and the limit: O(J^2 log L) for each r.

#include "weft/search/busiest_stage.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

constexpr double kPrecision = 1e-3;

class Reach {
 public:
  Reach(const ChainCost& cost, MicroBatches parts) : cost_(cost), parts_(parts) {}

  [[nodiscard]] bool possible(double seconds) const {
    const int devices = cost_.devices();
    std::vector<int> reach(static_cast<std::size_t>(devices) + 1, 0);
    for (int j = 0; j < devices; ++j) {
      reach[j + 1] = std::max(reach[j + 1], reach[j]);
      const auto most = std::min<std::int64_t>(devices - j, parts_.large());
      for (int n = 1; n <= most && reach[j] < cost_.layers(); ++n) {
        reach[j + n] = std::max(reach[j + n], farthest(reach[j], j, n, seconds));
      }
    }
    return reach.back() == cost_.layers();
  }

 private:
  [[nodiscard]] bool within(ChainStage stage, double seconds) const {
    if (!cost_.choose_recompute(stage, parts_.large(), 1)) {
      return false;
    }
    const StageSeconds small = cost_.seconds(stage, parts_.small());
    const StageSeconds large = cost_.seconds(stage, parts_.large());
    const auto larger = static_cast<double>(parts_.large_count());
    const double work_s =
        larger * (large.forward_s + large.backward_s) +
        (static_cast<double>(parts_.count) - larger) * (small.forward_s + small.backward_s);
    return work_s <= seconds &&
           (stage.devices == 1 || work_s + cost_.sync_seconds(stage) <= seconds);
  }

  [[nodiscard]] int farthest(int first_layer, int place, int count, double seconds) const {
    int good = first_layer;
    int bad = cost_.layers() + 1;
    while (bad - good > 1) {
      const int middle = good + (bad - good) / 2;
      const bool fits = within({.first_layer = first_layer,
                                .end_layer = middle,
                                .first_device = place,
                                .devices = count},
                               seconds);
      (fits ? good : bad) = middle;
    }
    return good;
  }

  const ChainCost& cost_;
  MicroBatches parts_;
};

}  // namespace

double busiest_stage_bound(const ChainCost& cost, MicroBatches parts, double limit_s) {
  const Reach reach(cost, parts);
  if (!reach.possible(limit_s)) {
    return reach.possible(std::numeric_limits<double>::infinity())
               ? limit_s
               : std::numeric_limits<double>::infinity();
  }
  // The work of all devices together is possible if it is spread evenly, which none can beat.
  double low = cost.sample_seconds(0, cost.layers()) * static_cast<double>(parts.batch) /
               cost.speed_of_first(cost.devices());
  double high = limit_s;
  while (high - low > kPrecision * low) {
    const double middle = (low + high) / 2;
    (reach.possible(middle) ? high : low) = middle;
  }
  return std::min(low, limit_s);
}

}  // namespace weft
