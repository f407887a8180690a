#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/emulate/flows.h"

namespace weft {

/// Something that several devices do together: a collective, or a transfer from one to another.
struct Meeting {
  std::uint64_t key = 0;  // the same on all that take part, and on nothing else of the same time
  int parties = 1;
  double alone_s = 0;  // how long it takes on idle links, in seconds of the wall clock
  double most = 0;     // see LinkFlow
  std::vector<Use> uses = {};
  double arrival_s = 0;  // of this device: its own clock when it comes
  double end_s = -1;     // once it is over
};

/// Where the devices of an emulated cluster meet: a file that their processes map. It knows who has
/// come to which meeting and how far the data on the links is, so a meeting takes as long as the
/// emulated links need, whoever else uses them. All times are those of the monotonic clock, which
/// all processes of a machine share. Threads and processes may use it at the same time.
class Board {
 public:
  /// Makes the file if there is none.
  explicit Board(const std::string& path);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  Board(Board&&) = delete;
  Board& operator=(Board&&) = delete;

  /// Does not block. Everybody who arrives must leave.
  void arrive(const Meeting& meeting);
  /// Sleeps until the meeting is over; notes its end.
  void leave(Meeting& meeting);

 private:
  struct Shared;
  class Lock;
  Shared* shared_ = nullptr;
};

/// The monotonic clock.
[[nodiscard]] double wall_s();
/// Sleeps until then, to some microseconds; returns at once if it has passed.
void sleep_until(double time_s);

}  // namespace weft
