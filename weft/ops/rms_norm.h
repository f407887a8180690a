#pragma once

#include <cstdint>

namespace weft::ops {

/// rms_norm_backward sums dw over this many runs of rows, each by itself, and then over the runs: a
/// fixed number, so that neither the result nor the memory depends on the number of threads.
[[nodiscard]] std::int64_t rms_norm_chunks(std::int64_t rows);

}  // namespace weft::ops
