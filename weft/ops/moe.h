#pragma once

#include <cstdint>

#include "weft/ops/op.h"

namespace weft::ops {

/// What moe_route's attributes say; docs/spec/ops.md.
struct MoeRouting {
  std::int64_t experts = 1;
  std::int64_t k = 1;
  std::int64_t capacity = 1;  // slots of an expert for each entry of dim 0
  bool normalise = false;
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;
  std::int64_t group_best = 1;
};

[[nodiscard]] MoeRouting moe_routing(const OpCall& call);

}  // namespace weft::ops
