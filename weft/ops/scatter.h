#pragma once

#include <string_view>
#include <vector>

#include "weft/ops/op.h"

// What the ops share that read and write single entries.
namespace weft::ops {

/// Throws Error{input} unless attribute `reduction` is none, add or mul and input 0 holds numbers.
void require_reduction(const OpCall& call, std::string_view op);

/// dx of what was picked out of `x` along `dim` by ids of dy's shape.
[[nodiscard]] ValueId emit_elements_backward(Builder& build, ValueId dy, ValueId ids, ValueId x,
                                             std::int64_t dim);

/// The gradients of scatter(x, ids, u): dy gathered for u, and dy, without what was overwritten,
/// for x.
[[nodiscard]] std::vector<ValueId> scatter_gradients(const Backward& b, std::string_view scatter,
                                                     std::string_view gather,
                                                     const Attrs& gather_attrs);

}  // namespace weft::ops
