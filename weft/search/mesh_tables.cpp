// A table stands for all meshes of its shape: it is made for the first devices of the cluster.

#include "weft/search/mesh_tables.h"

#include <algorithm>

namespace weft {

StageTable& MeshTables::at(const MeshShape& shape, int micro_batches, bool following) {
  std::unique_ptr<StageTable>& known = tables_[{shape, micro_batches, following}];
  if (known == nullptr) {
    BlockPlace place{.mesh = mesh_at({.shape = shape, .first_device = 0}),
                     .data_axes = shape.dp > 1 ? 1 : 0,
                     .samples = (task_.batch + micro_batches - 1) / micro_batches,
                     .several = micro_batches > 1};
    std::erase_if(place.zero_modes, [&](WeightMode mode) {
      const int level = static_cast<int>(mode);
      return is_forbidden(limits_, weight_mode_name(mode)) ||
             (limits_.zero >= 0 && level != limits_.zero);
    });
    place.replicates = limits_.zero <= 0;
    place.own_gradients = !following && !is_forbidden(limits_, "gradients");
    known = std::make_unique<StageTable>(model_, std::move(place), micro_batches);
    known->may_keep = limits_.recompute != "block";
    known->may_recompute = limits_.recompute != "none" && !is_forbidden(limits_, "recompute");
  }
  return *known;
}

}  // namespace weft
