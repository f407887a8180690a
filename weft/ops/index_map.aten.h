#pragma once

#include <cstdint>
#include <vector>

#include "weft/kernels/torch_headers.h"
#include "weft/ops/op.h"

namespace weft::ops {

/// Slices, pads and rolls are one thing: entry i of dim d of the result is entry maps[d][i] of the
/// source, or nothing where that is -1.
using IndexMap = std::vector<std::int64_t>;
using IndexMaps = std::vector<IndexMap>;

/// 0, 1, … n - 1
[[nodiscard]] IndexMap identity_map(std::int64_t n);
/// Where each of `length` entries of the source goes to; the map takes none twice.
[[nodiscard]] IndexMap inverse_map(const IndexMap& map, std::int64_t length);

/// y[i, j, …] = x[maps[0][i], maps[1][j], …], or `fill` where one of them is -1.
[[nodiscard]] at::Tensor take_mapped(const at::Tensor& x, const IndexMaps& maps, double fill);
/// Its gradient: dy[i, j, …] is added to dx[maps[0][i], maps[1][j], …], where dx has type `x`. By
/// one thread, since entries may meet.
[[nodiscard]] at::Tensor add_mapped(const at::Tensor& dy, const IndexMaps& maps,
                                    const TensorType& x);

}  // namespace weft::ops
