#pragma once

#include <cstdint>

#include "weft/kernels/torch_headers.h"
#include "weft/ops/elementwise.aten.h"
#include "weft/ops/op.h"

namespace weft::ops {

/// A tensor seen along one dim: element k of line (o, i) is at (o * length + k) * inner + i.
struct Lines {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  [[nodiscard]] std::int64_t first(std::int64_t line) const {
    return line / inner * length * inner + line % inner;
  }
  [[nodiscard]] std::int64_t count() const { return outer * inner; }
};

inline Lines lines_of(const at::Tensor& x, std::int64_t dim) {
  dim += dim < 0 ? x.dim() : 0;
  Lines lines{.outer = 1, .length = x.size(dim), .inner = 1};
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    lines.outer *= d < dim ? x.size(d) : 1;
    lines.inner *= d > dim ? x.size(d) : 1;
  }
  return lines;
}

inline std::vector<std::int64_t> sizes_of(const TensorType& type) {
  std::vector<std::int64_t> sizes;
  for (const Dim dim : type.shape) {
    sizes.push_back(dim.size);
  }
  return sizes;
}

/// f(line) for every line, in parallel.
template <typename F>
void for_lines(const Lines& lines, const F& f) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, lines.length));
  at::parallel_for(0, lines.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      f(line);
    }
  });
}

/// Where id points to in `length` entries; negative ids count from the end. Throws Error{input}.
inline std::int64_t entry_of(std::int64_t id, std::int64_t length, std::string_view op) {
  const std::int64_t at = id < 0 ? id + length : id;
  require(at >= 0 && at < length, "{}: id {} is outside of {} entries", op, id, length);
  return at;
}

}  // namespace weft::ops
