#pragma once

#include <cstdint>

namespace weft::ops {

/// Sums over rows are made over this many runs of rows, each by itself, and then over the runs. A
/// fixed number, so that neither the result nor the memory depends on the number of threads.
[[nodiscard]] std::int64_t batch_norm_chunks(std::int64_t rows);

}  // namespace weft::ops
