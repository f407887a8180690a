#pragma once

#include <cstdint>
#include <vector>

#include "weft/ops/op.h"

namespace weft::ops {

/// The angle by which pair i of the features turns from one position to the next, for i below
/// dims/2, scaled as the attributes say.
[[nodiscard]] std::vector<double> rotary_frequencies(const Attrs& attrs);

/// Numbers of the table that a call makes: cos and sin for each position and pair; the pairs of an
/// interleaved call have them twice, so that they lie as the features do.
[[nodiscard]] std::int64_t rotary_table_size(const OpCall& call);

}  // namespace weft::ops
