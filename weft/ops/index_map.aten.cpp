#include "weft/ops/index_map.aten.h"

#include <numeric>

#include "weft/ops/elementwise.aten.h"

namespace weft::ops {
namespace {

/// Walks over the rows (the last dim) of the tensor whose dims the maps give.
struct Rows {
  explicit Rows(const IndexMaps& dims) : maps(dims) {
    for (std::size_t d = 0; d + 1 < maps.size(); ++d) {
      count *= static_cast<std::int64_t>(maps[d].size());
    }
    length = maps.empty() ? 1 : static_cast<std::int64_t>(maps.back().size());
  }
  /// Where the source of row r begins: -1 if it has none.
  [[nodiscard]] std::int64_t source(std::int64_t r, at::IntArrayRef strides) const {
    std::int64_t offset = 0;
    for (std::size_t d = maps.size() - (maps.empty() ? 0 : 1); d-- > 0;) {
      const auto size = static_cast<std::int64_t>(maps[d].size());
      const std::int64_t from = maps[d][static_cast<std::size_t>(r % size)];
      if (from < 0) {
        return -1;
      }
      offset += from * strides[d];
      r /= size;
    }
    return offset;
  }
  [[nodiscard]] std::int64_t column(std::int64_t i) const {
    return maps.empty() ? 0 : maps.back()[static_cast<std::size_t>(i)];
  }

  const IndexMaps& maps;
  std::int64_t count = 1;
  std::int64_t length = 1;
};

template <typename T>
void take_rows(const at::Tensor& x, const Rows& rows, T fill, T* y) {
  const T* from = x.data_ptr<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / rows.length);
  at::parallel_for(0, rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t source = rows.source(r, x.strides());
      T* row = y + r * rows.length;
      for (std::int64_t i = 0; i < rows.length; ++i) {
        const std::int64_t column = rows.column(i);
        row[i] = source < 0 || column < 0 ? fill : from[source + column];
      }
    }
  });
}

}  // namespace

IndexMap identity_map(std::int64_t n) {
  IndexMap map(static_cast<std::size_t>(n));
  std::iota(map.begin(), map.end(), 0);
  return map;
}

IndexMap inverse_map(const IndexMap& map, std::int64_t length) {
  IndexMap inverse(static_cast<std::size_t>(length), -1);
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i] >= 0) {
      inverse[static_cast<std::size_t>(map[i])] = static_cast<std::int64_t>(i);
    }
  }
  return inverse;
}

at::Tensor take_mapped(const at::Tensor& x, const IndexMaps& maps, double fill) {
  std::vector<std::int64_t> sizes;
  for (const IndexMap& map : maps) {
    sizes.push_back(static_cast<std::int64_t>(map.size()));
  }
  at::Tensor y = at::empty(sizes, x.options());
  visit_any(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    take_rows<T>(x, Rows(maps), static_cast<T>(fill), y.data_ptr<T>());
  });
  return y;
}

at::Tensor add_mapped(const at::Tensor& dy, const IndexMaps& maps, const TensorType& x) {
  std::vector<std::int64_t> sizes;
  for (const Dim dim : x.shape) {
    sizes.push_back(dim.size);
  }
  at::Tensor dx = at::zeros(sizes, dy.options());
  const Rows rows(maps);
  visit_floating(dy, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = dy.data_ptr<T>();
    T* to = dx.data_ptr<T>();
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const std::int64_t target = rows.source(r, dx.strides());
      for (std::int64_t i = 0; target >= 0 && i < rows.length; ++i) {
        if (rows.column(i) >= 0) {
          to[target + rows.column(i)] += from[r * rows.length + i];
        }
      }
    }
  });
  return dx;
}

}  // namespace weft::ops
