#pragma once

#include <cstdint>
#include <functional>

namespace weft {

/// When a search ends, and whom it tells how far it is.
struct SolveLimits {
  double seconds = 60;  // of wall time, from the call
  std::uint64_t seed = 1;
  int threads = 2;
  std::function<bool()> interrupted = [] { return false; };  // asked often, by any thread
  std::function<void(double share, double cost, double bound)> progress =
      [](double /*share*/, double /*cost*/, double /*bound*/) {};
};

}  // namespace weft
