// Which devices a plan uses, and which stages share a mesh.
#include <algorithm>
#include <set>

#include "weft/plan/plan.h"

namespace weft {

std::vector<PlanMesh> meshes(const Plan& plan) {
  std::vector<PlanMesh> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Mesh& mesh = plan.stages[s].mesh;
    auto it = std::ranges::find(result, mesh, &PlanMesh::mesh);
    if (it == result.end()) {
      it = result.insert(it, PlanMesh{.mesh = mesh, .stages = {}});
    }
    it->stages.push_back(static_cast<int>(s));
  }
  return result;
}

std::vector<DeviceId> used_devices(const Plan& plan) {
  std::set<DeviceId> devices;
  for (const StagePlan& stage : plan.stages) {
    devices.insert(stage.mesh.devices.begin(), stage.mesh.devices.end());
  }
  return {devices.begin(), devices.end()};
}

}  // namespace weft
