#pragma once

#include <unordered_map>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// The local types of a stage's slots on one device, for micro-batches of one size. Found when
/// first asked for, and once for all slots that are alike: a model repeats its layers.
class LocalTypes {
 public:
  /// The stage must outlive it.
  LocalTypes(const StageProgram& stage, Coordinates at, std::int64_t samples);
  LocalTypes(const LocalTypes&) = delete;  // it points into itself; a move keeps what it points at
  LocalTypes& operator=(const LocalTypes&) = delete;
  LocalTypes(LocalTypes&&) = default;
  LocalTypes& operator=(LocalTypes&&) = default;
  ~LocalTypes() = default;

  /// The same object for slots that are alike.
  [[nodiscard]] const TensorType& operator()(SlotId slot) { return find(slot).type; }
  [[nodiscard]] std::int64_t bytes(SlotId slot) { return find(slot).bytes; }

 private:
  struct Known {
    TensorType type;
    std::int64_t bytes = 0;
  };
  // Slots of one type that lie in one way.
  struct Alike {
    const StageProgram* stage = nullptr;
    std::size_t operator()(SlotId slot) const;
    bool operator()(SlotId a, SlotId b) const;
  };
  const Known& find(SlotId slot) {
    const Known*& known = of_slot_[slot];
    return *(known != nullptr ? known : known = &find_first(slot));
  }
  const Known& find_first(SlotId slot);

  const StageProgram* stage_;
  Coordinates at_;
  std::int64_t samples_;
  std::unordered_map<SlotId, Known, Alike, Alike> known_;
  std::vector<const Known*> of_slot_;
};

}  // namespace weft
