#include "weft/program/local_types.h"

#include <utility>

namespace weft {

LocalTypes::LocalTypes(const StageProgram& stage, Coordinates at, std::int64_t samples)
    : stage_(&stage),
      at_(std::move(at)),
      samples_(samples),
      known_(0, Alike{&stage}, Alike{&stage}),
      of_slot_(stage.slots.size()) {
}

std::size_t LocalTypes::Alike::operator()(SlotId slot) const {
  const Slot& s = stage->slots[slot];
  std::uint64_t hash = static_cast<std::uint64_t>(s.type.dtype);
  const auto add = [&](std::int64_t number) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32U;
  };
  for (const Dim& dim : s.type.shape) {
    add(dim.size);
  }
  for (const Placement& placement : s.placements) {
    add(8 * placement.dim + static_cast<int>(placement.kind));
  }
  return hash;
}

bool LocalTypes::Alike::operator()(SlotId a, SlotId b) const {
  const Slot& x = stage->slots[a];
  const Slot& y = stage->slots[b];
  return x.type == y.type && x.placements == y.placements;
}

const LocalTypes::Known& LocalTypes::find_first(SlotId slot) {
  const auto [entry, fresh] = known_.try_emplace(slot);
  if (fresh) {
    entry->second.type = slot_type(*stage_, slot, at_, samples_);
    entry->second.bytes = entry->second.type.bytes();
  }
  return entry->second;
}

}  // namespace weft
