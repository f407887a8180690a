#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/simulate/share.h"

namespace weft {

inline constexpr int kNoPlace = -1;

/// The simulator's inner game, free of programs and tensors. Devices walk through lists of moves.
/// What several devices do together (a collective, a transfer) is an exchange.
///
///   run     the device computes for `seconds`
///   join    puts the exchange at the end of one of its lanes; the device does not stop
///   arrive  tells the exchange that the device is there; the device does not stop
///   wait    the device stops until the exchange has ended; with `host_s` above 0 its host does
///   too,
///           and needs so long to go on
///
/// A host issues runs ahead of its device: it needs `issue_s` for a run, and the device cannot end
/// the run earlier than `behind_issue_s` after the host began with it. For a run of several kernels
/// i = 1 … k with issue times h_i and seconds s_i these are sum h_i and max over j of
/// (h_1 + … + h_j + s_j + … + s_k).
struct Move {
  enum class Kind : std::uint8_t { run, join, arrive, wait };
  Kind kind = Kind::run;
  int exchange = -1;
  int lane = -1;         // join
  int place = kNoPlace;  // the caller's mark; kNoPlace: the host's own work
  double seconds = 0;
  double issue_s = 0;
  double behind_issue_s = 0;
  double host_s = 0;
};

/// Who takes part in an exchange. It starts when it is the first of each of these lanes and all
/// `arrivals` came; it holds all its lanes until it ends.
struct Party {
  std::vector<int> lanes = {};
  int arrivals = 0;
  std::vector<int> devices = {};  // who takes part and may wait for its end
};

/// An exchange takes latency_s, then `seconds` if it has its resources for itself.
struct PlayedExchange {
  int party = 0;
  double seconds = 0;
  double latency_s = 0;
  int pattern = -1;       // into Game::patterns; -1: shares nothing
  double flow_bytes = 0;  // what each of its flows carries
};

/// A device while it communicates and computes at the same time.
struct Overlap {
  double compute_slowdown = 1;
  double communication_slowdown = 1;
};

struct Game {
  std::vector<std::vector<Move>> devices = {};
  int lanes = 0;
  std::vector<Party> parties = {};
  std::vector<PlayedExchange> exchanges = {};  // those that nobody joins do not happen
  /// Flows that are under way share resources (links) max-min fairly, and all flows of an exchange
  /// keep pace.
  std::vector<double> resources = {};  // bytes/s
  std::vector<std::vector<Use>> patterns = {};
  std::vector<Overlap> overlaps = {};  // by device; empty: nothing slows down
};

struct Span {
  double start_s = 0;
  double end_s = -1;  // negative: it has not happened
};

struct Played {
  double end_s = 0;            // of the last move or exchange
  std::vector<double> busy_s;  // by device: how long it computed
  std::vector<Span> exchanges;
  std::vector<std::vector<Span>> moves;  // by device and move, if asked for
  /// Where each device stands: its number of moves, or less if it waits for ever.
  std::vector<int> at;
  bool finished = false;  // all devices came to their end and all exchanges that began ended
};

/// Event by event, in the order of time; what happens at the same time in a fixed order.
[[nodiscard]] Played play(const Game& game, bool keep_moves);

}  // namespace weft
