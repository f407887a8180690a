#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "weft/runtime/collectives.h"

namespace weft {

class Communicator;

/// Runs the collectives of a device one after the other, in the order in which they are issued,
/// beside its compute thread. All members of a group issue theirs in the same order, so nobody
/// waits for a peer that waits for it.
class CommunicationLane {
 public:
  using Clock = std::chrono::steady_clock;
  struct Task {
    std::unique_ptr<Collective> collective;  // until it was waited for: holds its buffers
    bool done = false;
    std::exception_ptr error = nullptr;
    Clock::time_point begin = {};
    Clock::time_point end = {};
  };

  explicit CommunicationLane(Communicator& communicator);
  /// Waits for what runs; what has not begun is dropped.
  ~CommunicationLane();
  CommunicationLane(const CommunicationLane&) = delete;
  CommunicationLane& operator=(const CommunicationLane&) = delete;
  CommunicationLane(CommunicationLane&&) = delete;
  CommunicationLane& operator=(CommunicationLane&&) = delete;

  [[nodiscard]] std::shared_ptr<Task> start(std::unique_ptr<Collective> collective);
  /// Blocks until done, frees the buffers, throws what the collective threw. After a failure all
  /// later tasks fail too.
  void wait(Task& task);

 private:
  void work();
  void run(Task& task);

  Communicator& communicator_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::shared_ptr<Task>> queue_;
  bool stop_ = false;
  std::exception_ptr failure_ = nullptr;
  std::jthread thread_;  // last: begins when the rest is there
};

}  // namespace weft
