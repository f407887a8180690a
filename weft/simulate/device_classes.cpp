#include "weft/simulate/device_classes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

// Local shapes depend only on how long a dim is and how the axes split it. A stage has thousands of
// slots but a handful of different split dims, so those are compared.
struct SplitDim {
  std::int64_t length = 0;
  std::vector<Placement> axes;  // replicate where the axis does not split this dim
};

bool splits(const Placement& placement, int dim) {
  return placement.kind == Placement::Kind::shard && placement.dim == dim;
}

// Whether an axis splits the dim of a slot as it splits a known one.
bool splits_alike(const Placement& placement, int dim, const Placement& known) {
  if (!splits(placement, dim)) {
    return known.kind != Placement::Kind::shard;
  }
  return known.kind == Placement::Kind::shard && placement.unit == known.unit &&
         placement.shift == known.shift && placement.ratios == known.ratios;
}

void add_split_dims(const Slot& slot, std::int64_t samples, std::vector<SplitDim>& dims) {
  for (int d = 0; d < slot.type.rank(); ++d) {
    if (std::ranges::none_of(slot.placements, [&](const Placement& p) { return splits(p, d); })) {
      continue;
    }
    const Dim& dim = slot.type.shape[d];
    const std::int64_t length = dim.batched ? dim.size * samples : dim.size;
    const bool known = std::ranges::any_of(dims, [&](const SplitDim& other) {
      return other.length == length &&
             std::ranges::equal(slot.placements, other.axes,
                                [&](const Placement& here, const Placement& there) {
                                  return splits_alike(here, d, there);
                                });
    });
    if (known) {
      continue;
    }
    SplitDim split{.length = length, .axes = {}};
    for (const Placement& placement : slot.placements) {
      const bool here = splits(placement, d);
      split.axes.push_back(here ? placement : replicate());
      split.axes.back().dim = here ? 0 : -1;
    }
    dims.push_back(std::move(split));
  }
}

}  // namespace

SampleVariants sample_variants(const Program& program) {
  SampleVariants variants;
  const int count = static_cast<int>(program.micro_batches.size());
  variants.of_micro_batch.resize(count + 1);
  for (int m = 0; m < count; ++m) {
    auto& all = variants.samples;
    const auto found = std::find(all.begin(), all.end(), program.micro_batches[m]);
    variants.of_micro_batch[m + 1] = static_cast<int>(found - all.begin());
    if (found == all.end()) {
      all.push_back(program.micro_batches[m]);
    }
  }
  variants.of_micro_batch[0] = static_cast<int>(variants.samples.size());
  variants.samples.push_back(samples_in(program, -1));
  return variants;
}

DeviceClasses device_classes(const Program& program, int stage, const Cluster& cluster) {
  const StageProgram& part = program.stages[stage];
  std::vector<SplitDim> dims;
  for (const std::int64_t samples : sample_variants(program).samples) {
    for (const Slot& slot : part.slots) {
      add_split_dims(slot, samples, dims);
    }
  }
  DeviceClasses classes;
  std::map<std::pair<int, Ints>, int> known;
  for (int p = 0; p < static_cast<int>(part.mesh.devices.size()); ++p) {
    const Coordinates at = coordinates(part.mesh, p);
    Ints lengths;
    for (const SplitDim& dim : dims) {
      lengths.push_back(region({dim.length}, dim.axes, part.mesh, at)[0].size());
    }
    const int type = cluster.devices[part.mesh.devices[p]].type;
    const auto [entry, fresh] =
        known.try_emplace({type, std::move(lengths)}, static_cast<int>(known.size()));
    if (fresh) {
      classes.representative.push_back(p);
    }
    classes.of_position.push_back(entry->second);
  }
  return classes;
}

}  // namespace weft
