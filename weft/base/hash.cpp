#include "weft/base/hash.h"

#include <fmt/core.h>

namespace weft {

std::string hash_hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace weft
