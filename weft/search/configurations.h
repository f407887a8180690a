#pragma once

#include <compare>
#include <string>
#include <vector>

#include "weft/search/search.h"

namespace weft {

/// The axes of a mesh. An axis of size 1 is left out.
struct MeshShape {
  int dp = 1;   // replicas
  int tp2 = 1;  // a further axis of what tp is
  int tp = 1;   // neighbours within a host
  [[nodiscard]] int devices() const { return dp * tp2 * tp; }
  auto operator<=>(const MeshShape&) const = default;
};

/// A mesh of a pipeline: a run of devices.
struct PipelineMesh {
  MeshShape shape;
  int first_device = 0;
  bool operator==(const PipelineMesh&) const = default;
};

/// The meshes of a pipeline, the number of stages on each, and the number of micro-batches.
struct Configuration {
  std::vector<PipelineMesh> meshes;
  int chunks = 1;       // stages on each mesh: they go through all meshes again and again,
  bool folded = false;  // or there and back
  int micro_batches = 1;

  [[nodiscard]] int stages() const { return static_cast<int>(meshes.size()) * chunks; }
  [[nodiscard]] int mesh_index(int stage) const {
    const auto count = static_cast<int>(meshes.size());
    const bool back = folded && stage / count % 2 == 1;
    return back ? count - 1 - stage % count : stage % count;
  }
  [[nodiscard]] const PipelineMesh& mesh_of(int stage) const { return meshes[mesh_index(stage)]; }
  bool operator==(const Configuration&) const = default;
};

/// Meshes of one shape behind each other.
[[nodiscard]] Configuration equal_meshes(const MeshShape& shape, int count, int micro_batches);
/// "dp=2,tp=4,pp=2"; where meshes differ: "dp=2/4,tp=2/1,pp=2"; with several stages on each:
/// "dp=2,tp=4,pp=2,chunks=2,folded".
[[nodiscard]] std::string meshes_name(const Configuration& configuration);
/// "dp=2,tp=4,pp=2,micro-batches=8"
[[nodiscard]] std::string configuration_name(const Configuration& configuration);
[[nodiscard]] Mesh mesh_at(const PipelineMesh& place);

/// All with equal meshes that use one device, the first host, all devices or, of at most 16, any
/// number; micro-batches of 1, 2, 3, 4, 6, 8, 12, … samples for each replica and of all numbers of
/// samples that divide its share of the batch; up to 16 replicas also the whole batch at once.
[[nodiscard]] std::vector<Configuration> all_configurations(const Task& task, int layers,
                                                            const PlanLimits& limits);
/// The numbers of micro-batches among these, ascending.
[[nodiscard]] std::vector<int> micro_batch_counts(std::int64_t batch, int dp,
                                                  const PlanLimits& limits);
[[nodiscard]] bool is_forbidden(const PlanLimits& limits, std::string_view what);
/// Whether the limits leave a mesh of this shape.
[[nodiscard]] bool is_allowed(const MeshShape& shape, const PlanLimits& limits);
[[nodiscard]] int devices_of_first_host(const Cluster& cluster);

}  // namespace weft
