#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "weft/launch/activity.h"
#include "weft/launch/fault.h"
#include "weft/runtime/checkpoint.h"

namespace weft {

class Communicator;

/// Saves while training goes on: the training thread copies its parts, a thread of its own writes
/// them. A checkpoint gets its name when all ranks have written theirs, which they tell each other
/// at the end of steps. All ranks call the same functions in the same order.
class Saver {
 public:
  struct Spec {
    std::string folder = {};
    std::int64_t keep = 0;  // newest checkpoints that stay; 0: all
    /// Adds files to a folder that holds all parts; rank 0, on the thread that writes.
    std::function<void(const std::string& folder, std::int64_t step)> add_files = {};
    /// A checkpoint is there. Rank 0.
    std::function<void(const std::string& checkpoint, std::int64_t step)> on_saved = {};
    Activity* activity = nullptr;
    Fault* fault = nullptr;
    std::timed_mutex* files = nullptr;  // held while it writes
  };
  /// What a rank has to say at the end of a step; the sums over all ranks go to `settle`.
  struct Votes {
    std::int64_t written = 0;
    std::int64_t failed = 0;
  };

  Saver(Spec spec, Communicator& communicator);
  /// Waits for what is being written.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  Saver(Saver&&) = delete;
  Saver& operator=(Saver&&) = delete;

  /// Copies the parts and begins to write them. Ends an earlier save first.
  void start(const CheckpointInfo& info, const std::vector<LocalTensor>& parts);
  [[nodiscard]] Votes votes() const;
  /// Throws if a rank failed: its own error there, PeerError on the others.
  void settle(const Votes& sums);
  /// Waits until everything that was started has its name.
  void finish();

 private:
  enum class State { idle, writing, written, failed };
  void run(const std::function<void()>& job, State then);
  void write(const Snapshot& snapshot, const CheckpointInfo& info);
  void publish(const CheckpointInfo& info);
  void strike(const char* phase, std::int64_t step);

  Spec spec_;
  Communicator& communicator_;
  CheckpointInfo info_;     // of the save that is under way
  bool under_way_ = false;  // started and not yet written by all
  std::atomic<State> state_ = State::idle;
  std::exception_ptr failure_;  // set before the state says failed
  std::jthread thread_;         // writes parts; then, on rank 0, publishes
};

}  // namespace weft
