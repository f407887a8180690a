#pragma once

#include <limits>
#include <vector>

namespace weft {

/// Part of a link's capacity that a flow takes while it runs at full speed, in (0, 1].
struct LinkShare {
  int link = 0;
  double share = 0;
};

/// Data on its way: a collective or a transfer. Alone it takes `alone_s`.
struct LinkFlow {
  double start_s = 0;
  double alone_s = 0;
  double left = 1;    // part of it that has not arrived
  double end_s = -1;  // once nothing is left
  const LinkShare* shares = nullptr;
  int share_count = 0;
};

/// How fast each of these runs, as a part of its full speed, when they run together: max-min fair.
[[nodiscard]] std::vector<double> fair_speeds(const std::vector<const LinkFlow*>& flows);

/// Moves all flows on from one time to another. Those that end get their `end_s`.
void move_flows(std::vector<LinkFlow*>& flows, double from_s,
                double to_s = std::numeric_limits<double>::infinity());

}  // namespace weft
