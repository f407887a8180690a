#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/ops/op.h"
#include "weft/program/program.h"
#include "weft/store/dataset.h"
#include "weft/timeline/timeline.h"

namespace weft {

class Activity;
class Communicator;
class EmulatedDevice;
class Executor;
class Fault;

struct ExecutorSpec {
  const Program& program;
  const Graph& graph;
  const OpTable& ops;
  std::vector<DeviceId> devices;  // of the job, by rank
  std::uint64_t seed = 0;
  /// An executor of another program of the same model whose parameters this one uses, instead of
  /// ones of its own. It must outlive this one, and the two do not run at the same time.
  const Executor* shares = nullptr;
  Activity* activity = nullptr;  // is told of every instruction
  Fault* fault = nullptr;        // may strike at any
  /// The device that this rank plays, made for the same program; null where it is itself one. It
  /// must outlive the executor.
  EmulatedDevice* emulated = nullptr;
};

struct StepInput {
  std::int64_t step = 1;  // counts from 1
  double learning_rate = 0;
  const SampleBatch* batch = nullptr;  // holds `needed_samples` or more
};

/// This device's part of a named tensor, in memory that the executor owns.
struct LocalTensor {
  std::string name;
  TensorType type;       // of the whole tensor
  Region region;         // of this part
  bool primary = false;  // of all devices that hold this part, this one writes it
  std::span<std::byte> bytes;
};

/// A copy, taken while the step ran.
struct KeptTensor {
  LocalTensor part;  // its bytes lie in `bytes`
  std::vector<std::byte> bytes;
};

struct StepOptions {
  bool timeline = false;
  std::vector<KeptTensor>* gradients =
      nullptr;  // filled with the gradients as the update finds them
};

struct StepResult {
  std::optional<double> loss;  // on the devices of the last stage
  double seconds = 0;          // all times are those of the device, emulated or not
  double lag_s = 0;            // by how much an emulated device was late: this machine was too slow
  std::int64_t peak_memory_bytes = 0;
  Timeline timeline;  // this device's, if asked for
};

/// One device of the job: holds its tensors and interprets its part of the program, instruction by
/// instruction in the order of `expand`. Memory is taken and given back on the calling thread
/// alone, in that order.
class Executor {
 public:
  /// Connects the groups of the program's meshes: all ranks make their executors at the same time.
  /// Allocates parameters and states; they hold nothing until `initialise` or a checkpoint fills
  /// them.
  Executor(const ExecutorSpec& spec, Communicator& communicator);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  Executor(Executor&&) = delete;
  Executor& operator=(Executor&&) = delete;

  /// Fills parameters and states by their Init. Numbers depend on (seed, name, index in the whole
  /// tensor) alone.
  void initialise();
  /// Parameters and states.
  [[nodiscard]] std::vector<LocalTensor> stored() const;
  /// The samples of a step that this device's inputs are cut from, in order; none overlap.
  [[nodiscard]] std::vector<SampleRange> needed_samples() const;
  /// Throws Error with rank and instruction in front; PeerError where another rank is the likely
  /// cause.
  StepResult run_step(const StepInput& input, const StepOptions& options = {});
  /// Whether this device is the one that reports the loss: the first of the last stage.
  [[nodiscard]] bool reports_loss() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
