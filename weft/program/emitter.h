#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/program/lowering.h"

namespace weft {

/// Emits the segments of one stage. Knows for each segment which slots hold which value in which
/// placement, so that a conversion is made once and shared by all who need it.
class StageEmitter {
 public:
  StageEmitter(Lowering& l, int stage)
      : l_(l), index_(stage), stage_(l.program.stages[stage]), plan_(l.plan.stages[stage]) {}

  void emit_forward();
  void emit_backward();
  void emit_sync();
  void emit_norm();
  void emit_update();

  /// Sends the value of an edge that another stage asked for, as soon as it is made. Fills in
  /// `from_slot`.
  void emit_send(int edge, ValueId value);
  /// Receives the new content of a parameter that another stage owns. Fills in `to_slot`.
  void emit_return(int edge, ValueId parameter);

 private:
  using SlotsOf = std::map<ValueId, std::vector<SlotId>>;

  // emit_values.cpp
  SlotId new_slot(ValueId value, const Placements& placements, SlotId view_of = -1);
  Instruction& push(Instruction instruction);
  SlotId obtain(ValueId value, const Placements& needed);
  SlotId convert(SlotId from, const Placements& needed, SlotId into = -1);
  SlotId stored_slot(ValueId value, const Placements& placements);
  SlotId receive(ValueId value);
  SlotId find(ValueId value, const Placements& placements) const;
  [[nodiscard]] std::vector<SlotId> visible(ValueId value) const;
  void remember(ValueId value, SlotId slot) { slots_of_[phase_][value].push_back(slot); }
  void begin(Phase phase);

  // emit_micro_batch.cpp
  void emit_node(NodeId n);
  void emit_terms(const Node& node);
  void emit_accumulate(ValueId term);
  void recompute(ValueId value);
  void find_recomputed();
  [[nodiscard]] bool is_recomputed(ValueId value) const {
    return !recomputed_values_.empty() && recomputed_values_[value];
  }
  [[nodiscard]] bool is_repeated(ValueId value) const {
    return !repeated_values_.empty() && repeated_values_[value];
  }

  // emit_step.cpp
  SlotId sum_slot(ValueId sum);
  SlotId synchronised(ValueId sum);
  void gather_sums(ValueId sum);
  void emit_update_node(NodeId n);
  [[nodiscard]] Placements update_placements(ValueId value) const;
  [[nodiscard]] NodePlacement place_update(const Node& node) const;
  SlotId update_input(ValueId value, const Placements& needed);
  void store_next(ValueId parameter, SlotId updated);
  [[nodiscard]] Placements replicated() const { return Placements(stage_.mesh.axes.size()); }

  Lowering& l_;
  int index_;
  StageProgram& stage_;
  const StagePlan& plan_;
  Phase phase_ = Phase::forward;
  Segment* segment_ = nullptr;
  std::map<Phase, SlotsOf> slots_of_;
  std::map<ValueId, SlotId> stored_;     // persistent slots
  std::map<ValueId, SlotId> sums_;       // accumulators
  std::vector<bool> recomputed_values_;  // with their whole layer
  std::vector<bool> repeated_values_;    // by themselves: see `repeated_values`
  std::set<std::string, std::less<>> recomputed_layers_;
  std::size_t recvs_ = 0;  // receives stand at the start of the segment
};

}  // namespace weft
