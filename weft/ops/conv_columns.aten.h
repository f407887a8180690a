#pragma once

#include "weft/ops/conv.h"
#include "weft/ops/element.aten.h"
#include "weft/ops/window_loops.aten.h"

// Columns of a convolution (see conv.h): row r holds, group by group, the numbers that the filters
// of the group look at for output pixel r.
namespace weft::ops {

/// columns[0, …) = rows [first, first + count) of the columns of x.
template <typename T>
void fill_columns(const ConvSizes& sizes, const ConvMethod& method, const T* x, std::int64_t first,
                  std::int64_t count, Wide<T>* columns);

/// dx += what the rows [first, first + count) of the columns' gradient give to each input.
template <typename W>
void add_columns(const ConvSizes& sizes, const ConvMethod& method, const W* columns,
                 std::int64_t first, std::int64_t count, W* dx);

/// The weights [o, c, taps] in the order of the columns' numbers, and back.
template <typename T>
void pack_weights(const ConvSizes& sizes, const ConvMethod& method, const T* w, Wide<T>* packed);
template <typename T>
void unpack_weights(const ConvSizes& sizes, const ConvMethod& method, const Wide<T>* packed, T* w);

}  // namespace weft::ops
