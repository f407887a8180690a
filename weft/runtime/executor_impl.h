#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/emulate/device.h"
#include "weft/kernels/run_kernel.h"
#include "weft/program/exchange.h"
#include "weft/program/expand.h"
#include "weft/runtime/communication_lane.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/executor.h"

// The executor's inside, shared by its sources. Include torch_headers.h first.
namespace weft {

/// What was started and will be waited for: a collective, or the pieces of a transfer.
struct Pending {
  virtual ~Pending() = default;
  /// Blocks, then gives its buffers back. The second call does nothing.
  virtual void finish() = 0;
  /// When it really ran.
  CommunicationLane::Clock::time_point begin = {};
  CommunicationLane::Clock::time_point end = {};
  std::string what;
  int event = -1;  // into the timeline
  /// Of an emulated device: what it does meanwhile with others.
  std::vector<std::shared_ptr<Meeting>> meetings;
};

struct SlotState {
  at::Tensor tensor;
  std::shared_ptr<Pending> writer;                // under way into it
  std::vector<std::shared_ptr<Pending>> readers;  // may still read it
};

/// A compute instruction for micro-batches of one size.
struct PreparedCompute {
  /// A range along the batch of the whole step; it moves with the micro-batch.
  struct BatchRange {
    Range* range = nullptr;
    Range first;  // for a micro-batch that begins at sample 0
    std::int64_t per_sample = 1;
  };
  PreparedKernel kernel;
  KernelEnv env;
  std::vector<BatchRange> batch_ranges;
  /// By output: the input whose storage it takes, -1 where it has its own. Empty: no output does.
  std::vector<int> overwrites;
};

struct Executor::Impl {
  Impl(const ExecutorSpec& spec, Communicator& communicator);

  // slots.cpp
  SlotState& state(SlotId slot, int micro_batch);
  const at::Tensor& read(SlotId slot, int micro_batch);
  /// The tensor that a collective, a receive, a copy or a slice fills: existing storage for views,
  /// else a fresh one.
  at::Tensor destination(SlotId slot, int micro_batch);
  void put(SlotId slot, int micro_batch, at::Tensor tensor);
  [[nodiscard]] at::Tensor allocate(const TensorType& type) const;
  [[nodiscard]] TensorType local_type_of(SlotId slot, int micro_batch) const;
  [[nodiscard]] Region local_region(SlotId slot, int micro_batch) const;
  [[nodiscard]] int samples_key(SlotId slot, int micro_batch) const;
  [[nodiscard]] LocalTensor describe_part(SlotId slot, const at::Tensor& tensor) const;
  void clear_step();

  // run_local.cpp
  void run_input(const IssuedInstruction& issued);
  /// The part of the whole step's input that a slot takes.
  [[nodiscard]] Region input_box(SlotId slot, int micro_batch) const;
  void run_compute(const IssuedInstruction& issued);
  void run_slice(const IssuedInstruction& issued);
  void run_accumulate(const IssuedInstruction& issued);
  void run_copy(const IssuedInstruction& issued);
  PreparedCompute& prepared(const IssuedInstruction& issued);
  PreparedCompute& prepare_compute(const IssuedInstruction& issued);
  [[nodiscard]] std::vector<int> overwritten_inputs(const Instruction& instruction) const;
  void keep_gradients(const IssuedInstruction& issued);

  // run_communication.cpp
  void start_collective(const IssuedInstruction& issued);
  void start_send(const IssuedInstruction& issued);
  void start_receive(const IssuedInstruction& issued);
  void run_wait(const IssuedInstruction& issued);
  void run_free(const IssuedInstruction& issued);
  void finish(const std::shared_ptr<Pending>& pending);
  void meet(Pending& pending, const IssuedInstruction& issued, const std::vector<LocalPiece>& moved,
            std::int64_t element_bytes);
  [[nodiscard]] int rank_of(DeviceId device) const;
  [[nodiscard]] int tag_of(const IssuedInstruction& issued) const;

  // executor.cpp
  void run_local(const IssuedInstruction& issued);
  [[nodiscard]] int place_of(const IssuedInstruction& issued) const {
    return static_cast<int>(&issued - order.data());
  }
  [[nodiscard]] const at::Tensor& shared_tensor(const Impl& owner, SlotId slot) const;
  void dispatch(const IssuedInstruction& issued);
  [[nodiscard]] std::string describe(const IssuedInstruction& issued) const;
  void name_places(const std::string& prefix);
  void announce(std::size_t place);
  /// The op of a node in front of its name.
  [[nodiscard]] std::string full_name(const Instruction& instruction) const;
  int add_event(const IssuedInstruction& issued);
  /// Now; of an emulated device, how far it is: it may be ahead of the wall.
  [[nodiscard]] CommunicationLane::Clock::time_point device_time() const;
  void close_event(int event, CommunicationLane::Clock::time_point begin,
                   CommunicationLane::Clock::time_point end);

  const Program& program;
  const Graph& graph;
  const OpTable& ops;
  std::vector<DeviceId> devices;
  std::uint64_t seed = 0;
  Communicator& communicator;
  EmulatedDevice* emulated = nullptr;
  double lane_clock_s = 0;  // when the last collective of an emulated device ended; the lane's own

  int stage_index = 0;
  const StageProgram* stage = nullptr;
  Coordinates at;
  std::vector<IssuedInstruction> order;
  std::vector<int> axis_groups;  // of the communicator

  Activity* activity = nullptr;
  Fault* fault = nullptr;
  std::map<std::pair<const Instruction*, Phase>, std::string> place_names;
  std::vector<const std::string*> place_name_at;  // by place in `order`

  std::vector<SlotState> states;  // by slot and micro-batch, -1 first
  std::map<std::pair<const Instruction*, std::int64_t>, PreparedCompute> kernels;
  std::vector<PreparedCompute*> kernel_at;  // by place in `order`; null until it first ran
  std::vector<at::Tensor> operands;         // of the instruction that runs
  std::vector<at::Tensor> destinations;
  std::map<std::pair<const Instruction*, std::int64_t>, std::vector<LocalPiece>> pieces;

  // of the step that runs
  StepInput input;
  StepOptions options;
  Timeline timeline;
  CommunicationLane::Clock::time_point step_begin = {};

  CommunicationLane lane;  // last: ends first
};

}  // namespace weft
