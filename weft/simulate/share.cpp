// Progressive filling: the rate of all flows grows from 0 at the same pace. When a resource is
// full, all that use it stay at their rate; likewise a flow that has all it could take. The others
// go on.
//
//   next stop = min(min over resources of left / flows that still grow there,
//                   min over flows of what each could take)

#include "weft/simulate/share.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

constexpr double kFull = 1e-12;  // of the capacity: what rounding may leave

}  // namespace

FairShare::FairShare(const std::vector<double>& capacity)
    : capacity_(capacity), left_(capacity.size(), 0), count_(capacity.size(), 0) {
}

void FairShare::operator()(std::span<Flow> flows) {
  used_.clear();
  for (Flow& flow : flows) {
    flow.rate = -1;
    for (const Use& use : flow.uses) {
      if (count_[use.resource] == 0) {
        used_.push_back(use.resource);
        left_[use.resource] = capacity_[use.resource];
      }
      count_[use.resource] += use.flows;
    }
  }
  double level = 0;
  for (std::size_t growing = flows.size(); growing > 0;) {
    double stop = std::numeric_limits<double>::infinity();
    for (const int r : used_) {
      if (count_[r] > 0) {
        stop = std::min(stop, level + left_[r] / count_[r]);
      }
    }
    for (const Flow& flow : flows) {
      stop = flow.rate < 0 ? std::min(stop, flow.most) : stop;
    }
    for (const int r : used_) {
      left_[r] -= (stop - level) * count_[r];
    }
    level = stop;
    const std::size_t before = growing;
    for (Flow& flow : flows) {
      const bool full = std::ranges::any_of(flow.uses, [&](const Use& use) {
        return left_[use.resource] <= kFull * capacity_[use.resource];
      });
      if (flow.rate < 0 && (full || flow.most <= level)) {
        flow.rate = level;
        --growing;
      }
    }
    if (growing == before) {
      break;  // cannot happen: the resource or flow that gave `stop` is full
    }
    for (const int r : used_) {
      count_[r] = 0;
    }
    for (const Flow& flow : flows) {
      for (const Use& use : flow.uses) {
        count_[use.resource] += flow.rate < 0 ? use.flows : 0;
      }
    }
  }
  for (const int r : used_) {
    count_[r] = 0;
  }
}

}  // namespace weft
