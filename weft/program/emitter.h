#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/program/lowering.h"

namespace weft {

/// Edges whose other end another stage is still to make. They are numbered from 0 on each stage.
struct OpenEdges {
  struct End {
    int edge = -1;
    ValueId value = -1;
  };
  std::vector<Edge> edges;
  std::vector<End> to_send;
  std::vector<End> to_return;  // the parameter goes back to a home
};

/// Emits the segments of one mesh, beside those of others: it changes its own stage, and what is
/// known of values that its own nodes make. Knows for each segment which slots hold which value in
/// which placement, so that a conversion is made once and shared by all who need it. Chunks share
/// parameters and sums; other values go from one chunk to another as from one mesh to another.
class StageEmitter {
 public:
  StageEmitter(Lowering& l, int mesh);

  void emit_gather();
  /// Behind forward: how soon gathers may start.
  void pace_gather();
  void emit_forward(int chunk);
  /// With `weights`, gradients of weights are left to `emit_weight`.
  void emit_backward(int chunk, bool weights);
  void emit_weight(int chunk);
  void emit_sync();
  void emit_norm();
  void emit_update();

  /// Behind these: the edges that it left open, numbered from `first` on in its instructions now.
  [[nodiscard]] OpenEdges take_edges(int first);
  /// Where the loss is in the end, if it is here; or -1.
  [[nodiscard]] SlotId loss_slot() const { return loss_slot_; }

  /// Sends the value of an edge that another stage asked for, as soon as it is made. Fills in
  /// `from_slot`.
  void emit_send(int edge, ValueId value);
  /// Receives the new content of a parameter that another stage owns. Fills in `to_slot`.
  void emit_return(int edge, ValueId parameter);

 private:
  // emit_values.cpp
  SlotId new_slot(ValueId value, const Placements& placements, SlotId view_of = -1);
  Instruction& push(Instruction instruction);
  SlotId obtain(ValueId value, const Placements& needed);
  SlotId convert(SlotId from, const Placements& needed, SlotId into = -1);
  SlotId stored_slot(ValueId value, const Placements& placements);
  void receive(ValueId value);
  int open_edge(std::vector<OpenEdges::End>& ends, ValueId value, const Edge& edge);
  void hand_over(ValueId value, const Placements& placements, int chunk);
  SlotId find(ValueId value, const Placements& placements) const;
  [[nodiscard]] std::vector<SlotId> slots_in(Phase phase, int chunk, ValueId value) const;
  /// Calls `take` for the slots that the segment sees, until it returns true.
  template <typename Take>
  bool any_visible(ValueId value, const Take& take) const;
  [[nodiscard]] std::vector<SlotId> visible(ValueId value) const;
  void remember(ValueId value, SlotId slot);
  void begin(Phase phase, int chunk = 0);
  /// Goes back to a segment that was begun.
  void resume(Phase phase, int chunk);
  [[nodiscard]] int chunk_of(int stage) const;
  [[nodiscard]] int plan_stage() const { return l_.meshes[index_].stages[chunk_]; }

  // emit_micro_batch.cpp
  void emit_node(NodeId n);
  void emit_terms(const Node& node, std::string_view layer);
  void emit_accumulate(ValueId term, std::string_view layer);
  void finish_layers(std::string_view layer, std::string_view before);
  void leave_for_update();
  [[nodiscard]] bool gathers_operands(NodeId n);
  void emit_gradients(bool (*wanted)(const Lowering&, NodeId));
  void receive_for_weights();
  void find_recomputed();

  // emit_ring.cpp
  void emit_ring(NodeId n);
  [[nodiscard]] std::vector<SlotId> shift(const std::vector<SlotId>& slots, int axis);

  // emit_step.cpp
  SlotId sum_slot(ValueId sum);
  SlotId synchronised(ValueId sum, bool beside_backward);
  [[nodiscard]] bool backward_waits() const;
  void gather_sums(ValueId sum);
  void emit_update_node(NodeId n);
  void add_left(ValueId sum);
  [[nodiscard]] Placements update_placements(ValueId value) const;
  [[nodiscard]] NodePlacement place_update(const Node& node) const;
  SlotId update_input(ValueId value, const Placements& needed);
  void store_next(ValueId parameter, SlotId updated);
  [[nodiscard]] Placements replicated() const { return Placements(stage_.mesh.axes.size()); }

  Lowering& l_;
  int index_;
  StageProgram& stage_;
  OpenEdges open_;
  SlotId loss_slot_ = -1;
  Phase phase_ = Phase::forward;
  Segment* segment_ = nullptr;
  int chunk_ = 0;
  /// A slot that a segment made of a value; those of one value are chained, oldest first.
  struct Made {
    SlotId slot = -1;
    Phase phase = Phase::forward;
    int chunk = 0;
    bool gathered = false;  // by an all-gather
    int next = -1;          // into `made_`
  };
  std::vector<Made> made_;
  std::vector<int> first_made_;   // by value: into `made_`, or -1
  std::vector<int> last_made_;    // same
  std::vector<SlotId> stored_;    // by value: persistent slots, or -1
  std::vector<SlotId> sums_;      // by value: accumulators, or -1
  std::vector<bool> recomputed_;  // by value: backward makes it again
  /// Additions of gradients that are being scattered: they wait until the layer behind them is
  /// done, so that it runs meanwhile.
  struct Scattered {
    std::string_view layer;
    Instruction accumulate;
  };
  std::vector<Scattered> scattered_;
  std::map<ValueId, Instruction> left_;  // the last ones: by sum
  /// Gradients of weights whose rule gathers their operands: they wait in the same way.
  struct Delayed {
    std::string_view layer;
    NodeId node = -1;
  };
  std::vector<Delayed> delayed_;
  std::set<SlotId> operands_;  // what is gathered for them
  std::size_t recvs_ = 0;      // receives stand at the start of the segment
};

}  // namespace weft
