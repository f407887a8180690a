#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// The simulator's inner game, free of programs and tensors. Devices walk through lists of moves.
/// What several devices do together (a collective, a transfer) is an exchange.
///
///   run     the device's clock moves on by `seconds`
///   join    puts the exchange at the end of one of its lanes; the device does not stop
///   arrive  tells the exchange that the device is there; the device does not stop
///   wait    the device stops until the exchange has ended
struct Move {
  enum class Kind : std::uint8_t { run, join, arrive, wait };
  Kind kind = Kind::run;
  int exchange = -1;
  int lane = -1;   // join
  int place = -1;  // the caller's mark
  double seconds = 0;
};

/// Who takes part in an exchange. It starts when it is the first of each of these lanes and all
/// `arrivals` came; it holds all its lanes until it ends.
struct Party {
  std::vector<int> lanes = {};
  int arrivals = 0;
  std::vector<int> devices = {};  // who may wait for its end
};

struct Exchange {
  int party = 0;
  double seconds = 0;
};

struct Game {
  std::vector<std::vector<Move>> devices = {};
  int lanes = 0;
  std::vector<Party> parties = {};
  std::vector<Exchange> exchanges = {};  // those that nobody joins do not happen
};

struct Span {
  double start_s = 0;
  double end_s = -1;  // negative: it has not happened
};

struct Played {
  double end_s = 0;            // of the last move or exchange
  std::vector<double> busy_s;  // by device: sum of its runs
  std::vector<Span> exchanges;
  std::vector<std::vector<double>> starts_s;  // by device and move, if asked for
  /// Where each device stands: its number of moves, or less if it waits for ever.
  std::vector<int> at;
  bool finished = false;  // all devices came to their end and all exchanges that began ended
};

/// Times are a max-plus function of the game, so the order in which devices are looked at does not
/// matter. Costs O(moves + lanes of all exchanges).
[[nodiscard]] Played play(const Game& game, bool keep_starts);

}  // namespace weft
