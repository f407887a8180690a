#include "weft/launch/cause.h"

#include <utility>

namespace weft {
namespace {
constexpr std::chrono::milliseconds kSettle(1000);
}  // namespace

void add_cause(std::optional<Cause>& known, Cause cause) {
  cause.at = known ? known->at : std::chrono::steady_clock::now();
  if (!known || cause.cls < known->cls) {
    known = std::move(cause);
  }
}

bool is_settled(const Cause& cause) {
  return cause.cls == 0 || std::chrono::steady_clock::now() - cause.at > kSettle;
}

}  // namespace weft
