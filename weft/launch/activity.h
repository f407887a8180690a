#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

struct ActivityPage;

/// Environment variable with the descriptor of the memory that a launcher shares with a worker.
inline constexpr const char* kActivityFd = "WEFT_ACTIVITY_FD";

/// What a worker was doing at some moment.
struct ActivityView {
  std::uint64_t ticks = 0;  // grows with everything the training thread begins
  bool waits = false;       // for other ranks: then its own idleness is no sign of a hang
  std::string where = {};   // "step 3, backward of micro-batch 1, matmul h.0/attn"; empty: unknown
};

/// What the training thread does right now. It lies in memory that the launcher sees too, so that
/// the last instruction of a worker that was killed is known to the letter. One thread writes, any
/// thread reads. To write takes some ten nanoseconds and no lock.
class Activity {
 public:
  /// In the memory that the environment names, else in memory of its own.
  Activity();
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;
  Activity(Activity&&) = delete;
  Activity& operator=(Activity&&) = delete;

  /// Between steps: "loading saved/step-00000004". `waits`: other ranks are waited for.
  void enter(std::string_view what, bool waits = false);
  void begin_step(std::int64_t step);
  /// An instruction of the step begins. `what` is "phase\nname"; below 0: no micro-batch.
  void instruction(std::string_view what, int micro_batch, bool waits);
  /// A sign of life from within a long pause that is meant (a paced device).
  void tick();

  [[nodiscard]] ActivityView view() const;

 private:
  ActivityPage* page_ = nullptr;
};

/// The launcher's end: makes the memory, gives its descriptor to a child, and reads.
class ActivityMonitor {
 public:
  /// Throws Error{environment}.
  ActivityMonitor();
  ~ActivityMonitor();
  ActivityMonitor(const ActivityMonitor&) = delete;
  ActivityMonitor& operator=(const ActivityMonitor&) = delete;
  ActivityMonitor(ActivityMonitor&& other) noexcept;
  ActivityMonitor& operator=(ActivityMonitor&&) = delete;

  [[nodiscard]] int fd() const { return fd_; }  // closed on exec; the child duplicates it
  [[nodiscard]] ActivityView view() const;

 private:
  int fd_ = -1;
  ActivityPage* page_ = nullptr;
};

/// "step 3, backward of micro-batch 1, matmul h.0/attn".
[[nodiscard]] std::string place_text(std::int64_t step, std::string_view phase, int micro_batch,
                                     std::string_view name);

}  // namespace weft
