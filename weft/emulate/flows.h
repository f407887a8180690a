#pragma once

#include <limits>
#include <vector>

#include "weft/simulate/share.h"

namespace weft {

/// Data on its way: a collective or a transfer. Alone it takes `alone_s`, and each of its flows has
/// the rate `most`.
struct LinkFlow {
  double start_s = 0;
  double alone_s = 0;
  double left = 1;    // part of it that has not arrived
  double end_s = -1;  // once nothing is left
  double most = 0;
  const Use* uses = nullptr;  // how much of a link its flows take for each unit of their rate
  int use_count = 0;
};

/// How fast each of these runs, as a part of its full speed, when they share links as the simulator
/// lets exchanges share them.
[[nodiscard]] std::vector<double> fair_speeds(const std::vector<const LinkFlow*>& flows);

/// Moves all flows on from one time to another. Those that end get their `end_s`.
void move_flows(std::vector<LinkFlow*>& flows, double from_s,
                double to_s = std::numeric_limits<double>::infinity());

}  // namespace weft
