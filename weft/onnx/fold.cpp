// Folding: nodes whose inputs are known are computed when the graph is read. ONNX exporters write
// shapes as arithmetic on small tensors (Shape, Gather, Concat, …, Reshape); after folding they are
// attributes. The batch size stays a symbol: numbers are wholes or multiples of it.
#include <algorithm>
#include <array>

#include "weft/base/error.h"
#include "weft/onnx/call.h"
#include "weft/onnx/fold.h"

namespace weft::onnx_import {

namespace {

const std::map<std::string_view, void (*)(const Call&)>& folders() {
  static const std::map<std::string_view, void (*)(const Call&)> all = [] {
    std::map<std::string_view, void (*)(const Call&)> by_name;
    for (const auto& group : {fold_arithmetic(), fold_movement()}) {
      by_name.insert(group.begin(), group.end());
    }
    return by_name;
  }();
  return all;
}

// The shape of any operand is known.
bool fold_shape(const Call& call) {
  const Known shape = known_shape(call.shape(0));
  if (call.node.op == "Size") {
    Whole size{1, false};
    for (const Whole n : shape.wholes) {
      size = size * n;
    }
    call.give(0, {.element = Element::i64, .dims = {}, .reals = {}, .wholes = {size}});
    return true;
  }
  const auto rank = static_cast<std::int64_t>(shape.wholes.size());
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = place(call.whole("start", 0));
  const std::int64_t end = std::max(start, place(call.whole("end", rank)));
  call.give(0, known_wholes({shape.wholes.begin() + start, shape.wholes.begin() + end}));
  return true;
}

}  // namespace

bool fold(const Call& call) {
  if (call.node.op == "Shape" || call.node.op == "Size") {
    return fold_shape(call);
  }
  const auto folder = folders().find(call.node.op);
  if (folder == folders().end()) {
    return false;
  }
  for (int i = 0; i < call.inputs(); ++i) {
    if (call.has(i) && !call.in(i).is_constant()) {
      return false;
    }
  }
  for (int i = 0; i < call.inputs(); ++i) {
    if (call.has(i)) {
      call.importer.count_read(call.known(i, "an operand").elements());
    }
  }
  // A tensor with a sample for each B is made when the step runs.
  const int last = call.inputs() - 1;
  const bool sized = call.node.op == "ConstantOfShape" || call.node.op == "Expand";
  if (sized && call.has(last) && call.known(last, "the shape").mentions_batch()) {
    return false;
  }
  folder->second(call);
  return true;
}

std::int64_t Odometer::offset(const Ints& strides) const {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    at += index[d] * strides[d];
  }
  return at;
}

bool Odometer::advance() {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) {
      return true;
    }
    index[d] = 0;
  }
  return false;
}

Ints row_major(const Ints& dims) {
  Ints strides(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * dims[d];
  }
  return strides;
}

Ints broadcast_strides(const Ints& dims, const Ints& to) {
  const Ints own = row_major(dims);
  Ints strides(to.size(), 0);
  const std::size_t added = to.size() - dims.size();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    strides[added + d] = dims[d] == 1 ? 0 : own[d];
  }
  return strides;
}

Ints broadcast_dims(const Ints& a, const Ints& b) {
  Ints result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    require(x == y || x == 1 || y == 1, "shapes [{}] and [{}] do not go together",
            fmt::join(a, ","), fmt::join(b, ","));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Known picked(const Known& x, const Ints& dims, const std::vector<std::int64_t>& from) {
  Known result{.element = x.element, .dims = dims, .reals = {}, .wholes = {}};
  (is_real(x.element) ? result.reals.reserve(from.size()) : result.wholes.reserve(from.size()));
  for (const std::int64_t i : from) {
    if (is_real(x.element)) {
      result.reals.push_back(x.reals.at(i));
    } else {
      result.wholes.push_back(x.wholes.at(i));
    }
  }
  return result;
}

Known strided(const Known& x, const Ints& dims, const Ints& strides, std::int64_t first) {
  const std::int64_t elements = checked_elements(dims);
  std::vector<std::int64_t> from;
  if (elements > 0) {
    from.reserve(static_cast<std::size_t>(elements));
    const std::int64_t length = dims.empty() ? 1 : dims.back();
    const std::int64_t step = dims.empty() ? 0 : strides.back();
    Odometer row(dims.empty() ? dims : Ints(dims.begin(), dims.end() - 1));
    do {
      const std::int64_t begin = first + row.offset(strides);
      for (std::int64_t i = 0; i < length; ++i) {
        from.push_back(begin + i * step);
      }
    } while (row.advance());
  }
  return picked(x, dims, from);
}

}  // namespace weft::onnx_import
