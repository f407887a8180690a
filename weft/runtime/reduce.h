#pragma once

#include <cstddef>
#include <span>

#include "weft/graph/type.h"
#include "weft/runtime/communicator.h"

namespace weft {

/// out = ((terms[0] ∘ terms[1]) ∘ terms[2]) ∘ …, element by element, where ∘ is + or the larger of
/// two. `out` may be one of the terms. Half precision is added in f32 and rounded once; the result
/// of `max` is NaN if a term is.
void reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> terms, std::byte* out,
            std::size_t bytes);

}  // namespace weft
