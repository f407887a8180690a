#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/emulate/board.h"
#include "weft/program/expand.h"
#include "weft/simulate/durations.h"

namespace weft {

struct EmulationSpec {
  const Program& program;
  const Graph& graph;
  const OpTable& ops;
  const Cluster& cluster;
  DeviceId device = 0;
  double slow_down = 1;  // a second of the emulated device takes so many seconds of the wall clock
  std::string board = {};           // the file where the devices of the job meet
  std::string name = {};            // of the program: keeps its meetings apart from another's
  std::function<void()> tick = {};  // called during long pauses: they are meant
};

/// One device of an emulated cluster: keeps its clock, and before it does something with others
/// lets the thread that plays it sleep until the emulated device would be as far. All that it names
/// by a `place` is the place in `expand(stage)`. The clock is one of the wall, and what a sleep
/// lasts too long is made good by the next: errors do not add up. While kernels run faster here
/// than on the emulated device (which `slow_down` sees to), clock and wall agree whenever devices
/// meet.
class EmulatedDevice {
 public:
  explicit EmulatedDevice(const EmulationSpec& spec);

  void begin_step();
  /// A local instruction has run and took so much processor time. Does not sleep: the next kernel
  /// shall find its caches as this one left them.
  void computed(int place, double cpu_s);
  /// What the device is about to do with others, at its present clock. Sleeps until then.
  [[nodiscard]] Meeting collective(int place);
  /// `bytes` from one device to another.
  [[nodiscard]] Meeting transfer(int edge, int micro_batch, const Piece& bytes);
  /// The device has waited for a meeting that is over.
  void waited(const Meeting& meeting);
  /// Sleeps to the end of the step. How far the wall is ahead of the clock then: 0 where the pace
  /// was held.
  [[nodiscard]] double end_step();

  /// How far the device is, in seconds of wall_s().
  [[nodiscard]] double clock_s() const { return clock_s_; }
  [[nodiscard]] Board& board() { return board_; }
  [[nodiscard]] double slow_down() const { return spec_.slow_down; }

 private:
  [[nodiscard]] double seconds_of(int place, double cpu_s);
  void pause();
  [[nodiscard]] Meeting meeting(const std::string& name, int parties,
                                const Communication& cost) const;
  [[nodiscard]] std::vector<DeviceId> group_of(const Instruction& instruction) const;

  EmulationSpec spec_;
  CostModel cost_;
  ExchangeDurations exchanges_;
  int stage_ = 0;
  Coordinates at_;
  std::vector<IssuedInstruction> order_;
  std::vector<Duration> durations_;       // by place
  std::vector<double> collective_bytes_;  // by place
  double cpu_factor_ = 1;                 // emulated seconds for one of processor time
  std::vector<char> summed_;              // by slot: something was accumulated there in this step
  Board board_;
  double issue_s_ = 0;
  double clock_s_ = 0;
  double host_s_ = 0;  // when the device's host has issued all kernels so far
  std::int64_t step_ = 0;
  int over_all_ = 0;  // collectives over all devices in this step
};

}  // namespace weft
