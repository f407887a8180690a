// Stage s of S has min(m, S - s) micro-batches in flight under 1F1B, all m under GPipe, and under
// zb-v as many as there are meshes. For interleaved stages the schedule is gone through: the moment
// counts at which a mesh holds most micro-batches, over all of its stages.

#include "weft/search/in_flight.h"

#include <algorithm>
#include <numeric>

#include "weft/program/list_schedule.h"

namespace weft {

std::vector<int> micro_batches_in_flight(const Configuration& c, const std::string& schedule) {
  const int stages = c.stages();
  const auto meshes = static_cast<int>(c.meshes.size());
  std::vector<int> result;
  for (int s = 0; s < stages; ++s) {
    const int held = schedule == "gpipe" ? c.micro_batches : c.folded ? meshes : stages - s;
    result.push_back(std::min(c.micro_batches, held));
  }
  if (c.chunks == 1 || c.folded) {
    return result;
  }
  const auto orders = interleaved_schedule(meshes, c.chunks, c.micro_batches);
  for (int p = 0; p < meshes; ++p) {
    std::vector<int> held(static_cast<std::size_t>(c.chunks), 0);
    int most = 0;
    for (const OrderEntry& entry : orders[p]) {
      held[entry.chunk] += entry.phase == 'F' ? 1 : -1;
      const int all = std::accumulate(held.begin(), held.end(), 0);
      for (int k = 0; k < c.chunks && all > most; ++k) {
        result[k * meshes + p] = std::max(1, held[k]);
      }
      most = std::max(most, all);
    }
  }
  return result;
}

}  // namespace weft
