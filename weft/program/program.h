#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/graph/graph.h"
#include "weft/plan/plan.h"
#include "weft/sharding/reshard.h"
#include "weft/timeline/timeline.h"

namespace weft {

using SlotId = int;

enum class Lifetime : std::uint8_t { persistent, step, micro_batch };

/// A named place for a tensor in one stage. The local type on a device follows from the whole type,
/// the placement, the device's coordinates and the size of the micro-batch.
struct Slot {
  std::string name;
  TensorType type = {};  // whole, with the batch symbol
  Placements placements = {};
  Lifetime lifetime = Lifetime::micro_batch;
  ValueId value = -1;  // the graph value it holds
  /// Shares the storage of another slot (a view of it, or the same memory after an in-place
  /// change). -1: owns its storage.
  SlotId view_of = -1;
};

enum class Opcode : std::uint8_t {
  input,       // writes a graph input's local part
  compute,     // runs `node`
  slice,       // takes the local part of what is replicated (a view if the dim allows)
  accumulate,  // writes[0] += reads[0]; the first time in a step it is moved (see `moves`) or
               // copied there
  copy,        // overwrites the storage of writes[0] with reads[0]
  collective,  // starts; `wait` on the written slots ends it
  send,        // starts; the free of the slot it reads waits until it was sent
  recv,        // starts; `wait` ends it. Receives into existing storage if writes[0] is a view
  wait,        // for collectives and receives into reads
  free,        // reads
};
[[nodiscard]] std::string_view opcode_name(Opcode opcode);

/// Axis number of a collective over all devices of the job.
inline constexpr int kAllDevices = -1;

struct Instruction {
  Opcode opcode = Opcode::compute;
  Lane lane = Lane::compute;
  NodeId node = -1;                // compute: the graph node
  std::vector<SlotId> reads = {};  // of compute: the node's inputs in order
  std::vector<SlotId> writes = {};
  /// compute, in a ring: which of its runs this is. All but run 0 go on from the outputs of the one
  /// before, which they read behind the node's inputs and write in place.
  int ring_step = -1;
  // collective: reads[i] becomes writes[i]; in place where writes[i] shares the storage of reads[i]
  // (all_reduce), or reads[i] is a view of the storage of writes[i] (all_gather); several are one
  // bucket
  CollectiveKind collective = CollectiveKind::all_reduce;
  int axis = 0;
  Placement from = {};  // collective, slice: on `axis`
  Placement to = {};
  int edge = -1;  // send, recv: into Program::edges
  /// accumulate: axes of the mesh along which only coordinate 0 adds (a replicated term of a
  /// partial sum). The others begin with zeros if they come first.
  std::vector<int> only_first_on = {};
  /// collective: starts as soon as its inputs are final, not only when the schedule reaches its
  /// segment; of gather: when the one before the last of these is needed. recv: starts one schedule
  /// entry ahead. free: runs `send_slack` schedule entries later, when what it waits for has long
  /// been sent.
  bool moved = false;
};

/// `gather`: of parameters that are kept in parts and used whole in all of the step. `weight`:
/// gradients of weights, where the plan takes them out of `backward`.
enum class Phase : std::uint8_t { gather, forward, backward, weight, sync, norm, update };
[[nodiscard]] std::string_view phase_name(Phase phase);
/// Whether it runs for each micro-batch; the others run once a step.
[[nodiscard]] bool is_for_micro_batch(Phase phase);

/// What one chunk of the model does in one phase. Stored once; all devices of the stage run it with
/// the local types of their coordinates and of the micro-batch.
struct Segment {
  Phase phase = Phase::forward;
  int chunk = 0;  // which of the plan's stages on this mesh; 0 for what runs once a step
  std::vector<Instruction> instructions;
};

struct ScheduleEntry {
  Phase phase = Phase::forward;
  int micro_batch = -1;  // -1: once a step
  int chunk = 0;
  bool operator==(const ScheduleEntry&) const = default;
};

/// A slot of one stage that is copied to a slot of another: for each micro-batch, or once a step.
struct Edge {
  int from_stage = 0;
  int to_stage = 0;
  SlotId from_slot = -1;
  SlotId to_slot = -1;
  bool each_micro_batch = true;
};

/// What one mesh runs: one stage of the plan, or several (its chunks).
struct StageProgram {
  Mesh mesh;
  std::vector<Slot> slots;
  /// At most one for a phase and chunk, in the order in which a micro-batch goes through them:
  /// what is gathered before, forward of all chunks, backward and weight in reverse, then what runs
  /// once a step.
  std::vector<Segment> segments;
  std::vector<ScheduleEntry> schedule;
  int send_slack = 1;  // what was sent is given back so many schedule entries later
};

struct Program {
  std::vector<StageProgram> stages;
  std::vector<Edge> edges;
  std::vector<std::int64_t> micro_batches;
  SlotId loss_slot = -1;  // replicated at the end of sync
  int loss_stage = 0;     // that has it
};

/// The slot that owns the storage.
[[nodiscard]] SlotId storage_of(const StageProgram& stage, SlotId slot);
/// By slot.
[[nodiscard]] std::vector<SlotId> storages(const StageProgram& stage);
/// Whether the first `accumulate` of a step takes over the storage of its operand instead of
/// copying.
[[nodiscard]] bool moves(const StageProgram& stage, const Instruction& accumulate);
/// Into the stage's segments; -1 if it has none such.
[[nodiscard]] int find_segment(const StageProgram& stage, Phase phase, int chunk = 0);
/// Samples in a micro-batch, or in the whole step for -1.
[[nodiscard]] std::int64_t samples_in(const Program& program, int micro_batch);
/// The first sample of a micro-batch within the step's batch.
[[nodiscard]] std::int64_t first_sample(const Program& program, int micro_batch);

/// Type of the local part of a slot on the device at these coordinates.
[[nodiscard]] TensorType slot_type(const StageProgram& stage, SlotId slot, const Coordinates& at,
                                   std::int64_t samples);

/// What timelines call an instruction: its node, or what it does and the first slot it does it to.
[[nodiscard]] std::string event_name(const StageProgram& stage, const Instruction& instruction,
                                     const Graph& graph);

/// Docs/spec/program.md defines the form.
[[nodiscard]] std::string format_program(const Program& program, const Graph& graph);

}  // namespace weft
