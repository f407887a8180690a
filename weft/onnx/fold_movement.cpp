// Known tensors taken apart and put together: no arithmetic.
#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/onnx/fold.h"

namespace weft::onnx_import {

namespace {

void constant_fold(const Call& call) {
  const FileAttr* value = nullptr;
  for (const char* name :
       {"value", "value_float", "value_floats", "value_int", "value_ints", "value_string"}) {
    value = value == nullptr ? call.attr(name) : value;
  }
  call.need(value != nullptr, "without a dense value");
  Known known;
  if (const auto* tensor = std::get_if<FileTensor>(value)) {
    call.need(tensor->element != Element::text, "of strings");
    known = decode(*tensor);
  } else if (const auto* number = std::get_if<double>(value)) {
    known = known_scalar(*number, Element::f32);
  } else if (const auto* whole = std::get_if<std::int64_t>(value)) {
    known = {.element = Element::i64, .dims = {}, .reals = {}, .wholes = {{*whole, false}}};
  } else if (const auto* wholes = std::get_if<Ints>(value)) {
    std::vector<Whole> list;
    for (const std::int64_t n : *wholes) {
      list.push_back({n, false});
    }
    known = known_wholes(list);
  } else if (const auto* numbers = std::get_if<std::vector<double>>(value)) {
    known = {.element = Element::f32,
             .dims = {static_cast<std::int64_t>(numbers->size())},
             .reals = *numbers,
             .wholes = {}};
  } else {
    call.refuse("of strings");
  }
  call.give(0, std::move(known));
}

void identity_fold(const Call& call) {
  call.give(0, call.known(0, "the operand"));
}

void constant_of_shape_fold(const Call& call) {
  const Ints dims = whole_list(call.known(0, "the shape"));
  Known value = known_scalar(0, Element::f32);
  if (const FileAttr* attr = call.attr("value")) {
    const auto* tensor = std::get_if<FileTensor>(attr);
    call.need(tensor != nullptr && tensor->element != Element::text, "without a number");
    value = decode(*tensor);
    call.need(value.elements() == 1, "without one number");
  }
  call.give(0, strided(value, dims, Ints(dims.size(), 0)));
}

Known with_dims(Known x, Ints dims) {
  x.dims = std::move(dims);
  return x;
}

void gather_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const Known& ids = call.known(1, "the indices");
  const int axis = call.axis(call.whole("axis", 0), x.rank());
  const std::int64_t length = x.dims[static_cast<std::size_t>(axis)];
  const Ints strides = row_major(x.dims);
  Ints dims(x.dims.begin(), x.dims.begin() + axis);
  dims.insert(dims.end(), ids.dims.begin(), ids.dims.end());
  dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  checked_elements(dims);
  std::int64_t outer = 1;
  for (int d = 0; d < axis; ++d) {
    outer *= x.dims[static_cast<std::size_t>(d)];
  }
  const std::int64_t inner = strides[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> from;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t k = 0; k < ids.elements(); ++k) {
      std::int64_t id = ids.whole(k);
      id = id < 0 ? id + length : id;
      call.need(id >= 0 && id < length, fmt::format("index {} of {} entries", id, length));
      for (std::int64_t i = 0; i < inner; ++i) {
        from.push_back((o * length + id) * inner + i);
      }
    }
  }
  call.give(0, picked(x, dims, from));
}

void concat_fold(const Call& call) {
  Known result = call.known(0, "an operand");
  const int axis = call.axis(call.whole("axis", 0), result.rank());
  const auto at = static_cast<std::size_t>(axis);
  std::int64_t outer = 1;
  for (std::size_t d = 0; d < at; ++d) {
    outer *= result.dims[d];
  }
  Ints dims = result.dims;
  dims[at] = 0;
  std::vector<const Known*> parts;  // that have elements
  for (int i = 0; i < call.inputs(); ++i) {
    const Known& part = call.known(i, "an operand");
    call.need(part.rank() == result.rank() && part.element == result.element,
              "parts of different types");
    for (std::size_t d = 0; d < dims.size(); ++d) {
      call.need(d == at || part.dims[d] == dims[d], "parts of different shapes");
    }
    dims[at] += part.dims[at];
    if (part.elements() > 0) {
      parts.push_back(&part);
    }
  }
  checked_elements(dims);
  Known joined{.element = result.element, .dims = dims, .reals = {}, .wholes = {}};
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Known* part : parts) {
      const std::int64_t run = part->elements() / outer;
      const auto begin = static_cast<std::ptrdiff_t>(o * run);
      if (is_real(part->element)) {
        joined.reals.insert(joined.reals.end(), part->reals.begin() + begin,
                            part->reals.begin() + begin + run);
      } else {
        joined.wholes.insert(joined.wholes.end(), part->wholes.begin() + begin,
                             part->wholes.begin() + begin + run);
      }
    }
  }
  call.give(0, std::move(joined));
}

void unsqueeze_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const Ints axes = call.list("axes", 1);
  call.need(axes.size() <= kMostKnownDims, "of so many dims");
  const Ints sorted = sorted_axes(call, axes, x.rank() + static_cast<int>(axes.size()));
  Ints dims = x.dims;
  for (const std::int64_t axis : sorted) {
    dims.insert(dims.begin() + axis, 1);
  }
  call.give(0, with_dims(x, dims));
}

void squeeze_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const Ints axes = sorted_axes(call, call.list("axes", 1), x.rank());
  Ints dims;
  for (int d = 0; d < x.rank(); ++d) {
    const std::int64_t n = x.dims[static_cast<std::size_t>(d)];
    const bool named = std::ranges::find(axes, d) != axes.end();
    call.need(!named || n == 1, "of a dim longer than one");
    if (!named && !(axes.empty() && n == 1)) {
      dims.push_back(n);
    }
  }
  call.give(0, with_dims(x, dims));
}

void slice_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const Ints starts = call.list("starts", 1);
  const Ints ends = call.list("ends", 2);
  Ints axes = call.list("axes", 3);
  const Ints steps = call.has(4) ? whole_list(call.known(4, "the steps")) : Ints{};
  Ints dims = x.dims;
  Ints strides = row_major(x.dims);
  std::vector<bool> cut(x.dims.size(), false);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t wanted = axes.empty() ? static_cast<std::int64_t>(i) : axes.at(i);
    const auto d = static_cast<std::size_t>(call.axis(wanted, x.rank()));
    call.need(!cut[d], "an axis given twice");
    cut[d] = true;
    const SliceRange range =
        slice_range(x.dims[d], starts[i], ends.at(i), steps.empty() ? 1 : steps.at(i));
    first += range.start * strides[d];
    dims[d] = range.size;
    strides[d] *= range.step;
  }
  call.give(0, strided(x, dims, strides, first));
}

void reshape_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  std::vector<Whole> from;
  for (const std::int64_t n : x.dims) {
    from.push_back({n, false});
  }
  const std::vector<Whole> sizes =
      reshaped_sizes(from, known_sizes(call, 1), call.whole("allowzero", 0) != 0);
  Ints dims;
  for (const Whole n : sizes) {
    call.need(!n.batched, "to a shape with the batch");
    dims.push_back(n.n);
  }
  call.give(0, with_dims(x, dims));
}

void flatten_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const std::int64_t axis = call.whole("axis", 1);
  call.need(axis >= -x.rank() && axis <= x.rank(), "an axis that is none");
  Ints dims = {1, 1};
  for (int d = 0; d < x.rank(); ++d) {
    dims[d < (axis < 0 ? axis + x.rank() : axis) ? 0 : 1] *= x.dims[static_cast<std::size_t>(d)];
  }
  call.give(0, with_dims(x, dims));
}

void transpose_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  Ints perm = call.wholes("perm");
  if (perm.empty()) {
    for (int d = x.rank(); d-- > 0;) {
      perm.push_back(d);
    }
  }
  call.need(static_cast<int>(perm.size()) == x.rank(), "a permutation of other dims");
  const Ints own = row_major(x.dims);
  Ints dims;
  Ints strides;
  for (const std::int64_t p : perm) {
    const auto d = static_cast<std::size_t>(call.axis(p, x.rank()));
    dims.push_back(x.dims[d]);
    strides.push_back(own[d]);
  }
  call.give(0, strided(x, dims, strides));
}

void expand_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const Ints dims = broadcast_dims(x.dims, whole_list(call.known(1, "the shape")));
  call.give(0, strided(x, dims, broadcast_strides(x.dims, dims)));
}

void tile_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const Ints repeats = whole_list(call.known(1, "the repeats"));
  call.need(static_cast<int>(repeats.size()) == x.rank(), "repeats of other dims");
  const Ints own = row_major(x.dims);
  Ints dims;
  Ints strides;
  Ints result;
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    dims.insert(dims.end(), {repeats[d], x.dims[d]});
    strides.insert(strides.end(), {0, own[d]});
    std::int64_t length = 0;
    call.need(!__builtin_mul_overflow(repeats[d], x.dims[d], &length), "too many repeats");
    result.push_back(length);
  }
  call.give(0, with_dims(strided(x, dims, strides), result));
}

void split_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  const auto axis = static_cast<std::size_t>(call.axis(call.whole("axis", 0), x.rank()));
  Ints sizes = call.list("split", 1);
  const auto parts = static_cast<std::int64_t>(call.node.outputs.size());
  if (sizes.empty()) {
    call.need(parts > 0 && x.dims[axis] % parts == 0, "into unequal parts");
    sizes.assign(static_cast<std::size_t>(parts), x.dims[axis] / parts);
  }
  call.need(sizes.size() == call.node.outputs.size(), "into other parts than outputs");
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Ints dims = x.dims;
    dims[axis] = sizes[i];
    call.need(sizes[i] >= 0 && sizes[i] <= x.dims[axis] - start, "sizes that do not add up");
    call.give(static_cast<int>(i),
              strided(x, dims, row_major(x.dims), start * row_major(x.dims)[axis]));
    start += sizes[i];
  }
}

// y = x, then y[ids[i…]] = u[i…]
void scatter_nd_fold(const Call& call) {
  Known x = call.known(0, "the operand");
  const Known& ids = call.known(1, "the indices");
  const Known& updates = call.known(2, "the updates");
  call.need(call.text("reduction", "none") == "none", "with a reduction");
  call.need(ids.rank() > 0 && ids.dims.back() <= x.rank() && ids.dims.back() > 0 &&
                updates.element == x.element,
            "indices of other dims");
  const std::int64_t depth = ids.dims.back();
  const Ints strides = row_major(x.dims);
  const std::int64_t run = strides[static_cast<std::size_t>(depth - 1)];
  const std::int64_t rows = ids.elements() / depth;
  call.need(updates.elements() == rows * run, "updates of another shape");
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t to = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      const std::int64_t length = x.dims[static_cast<std::size_t>(k)];
      std::int64_t id = ids.whole(row * depth + k);
      id = id < 0 ? id + length : id;
      call.need(id >= 0 && id < length, "an index out of range");
      to += id * strides[static_cast<std::size_t>(k)];
    }
    for (std::int64_t i = 0; i < run; ++i) {
      if (is_real(x.element)) {
        x.reals[to + i] = updates.reals[row * run + i];
      } else {
        x.wholes[to + i] = updates.wholes[row * run + i];
      }
    }
  }
  call.give(0, std::move(x));
}

// Places of what is not zero, one column each.
void non_zero_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  call.need(x.rank() > 0, "of a number");
  Ints places;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    if (x.number(i) != 0) {
      places.push_back(i);
    }
  }
  Known result{.element = Element::i64,
               .dims = {x.rank(), static_cast<std::int64_t>(places.size())},
               .reals = {},
               .wholes = {}};
  checked_elements(result.dims);
  const Ints strides = row_major(x.dims);
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    for (const std::int64_t place : places) {
      result.wholes.push_back({place / strides[d] % x.dims[d], false});
    }
  }
  call.give(0, std::move(result));
}

}  // namespace

const std::vector<Whole>& known_sizes(const Call& call, int i) {
  const Known& shape = call.known(i, "the shape");
  call.need(shape.wholes.size() <= kMostKnownDims, "to so many dims");
  return shape.wholes;
}

std::vector<Whole> reshaped_sizes(const std::vector<Whole>& from, const std::vector<Whole>& wanted,
                                  bool keep_zeros) {
  std::vector<Whole> sizes = wanted;
  Whole all{1, false};
  Whole named{1, false};
  for (const Whole n : from) {
    all = all * n;
  }
  int open = -1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].n == 0 && !keep_zeros) {
      require(i < from.size(), "a 0 in a shape stands for no dim");
      sizes[i] = from[i];
    }
    if (sizes[i].n == -1 && !sizes[i].batched) {
      require(open < 0, "a shape has -1 twice");
      open = static_cast<int>(i);
    } else {
      named = named * sizes[i];
    }
  }
  if (open >= 0) {
    sizes[static_cast<std::size_t>(open)] = all / named;
    named = named * sizes[static_cast<std::size_t>(open)];
  }
  require(all == named, "{} elements cannot take a shape of {}", to_text(all), to_text(named));
  return sizes;
}

SliceRange slice_range(std::int64_t length, std::int64_t start, std::int64_t end,
                       std::int64_t step) {
  require(step != 0 && step > std::numeric_limits<std::int64_t>::min(), "a slice with step {}",
          step);
  if (length == 0) {
    return {.start = 0, .size = 0, .step = 1};
  }
  const auto place = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
    return std::clamp(at < 0 ? at + length : at, low, high);
  };
  const bool forward = step > 0;
  const std::int64_t first = place(start, 0, forward ? length : length - 1);
  const std::int64_t last = place(end, forward ? 0 : -1, forward ? length : length - 1);
  const std::int64_t span = forward ? last - first : first - last;
  const std::int64_t stride = forward ? step : -step;
  const std::int64_t size = span <= 0 ? 0 : (span - 1) / stride + 1;
  return {.start = first, .size = size, .step = size > 1 ? step : 1};
}

Ints sorted_axes(const Call& call, const Ints& axes, int rank) {
  Ints sorted;
  for (const std::int64_t axis : axes) {
    sorted.push_back(call.axis(axis, rank));
  }
  std::ranges::sort(sorted);
  call.need(std::ranges::adjacent_find(sorted) == sorted.end(), "an axis given twice");
  return sorted;
}

Folders fold_movement() {
  return {{"Constant", constant_fold},
          {"ConstantOfShape", constant_of_shape_fold},
          {"Identity", identity_fold},
          {"Gather", gather_fold},
          {"Concat", concat_fold},
          {"Unsqueeze", unsqueeze_fold},
          {"Squeeze", squeeze_fold},
          {"Slice", slice_fold},
          {"Reshape", reshape_fold},
          {"Flatten", flatten_fold},
          {"Transpose", transpose_fold},
          {"Expand", expand_fold},
          {"Tile", tile_fold},
          {"Split", split_fold},
          {"ScatterND", scatter_nd_fold},
          {"NonZero", non_zero_fold}};
}

}  // namespace weft::onnx_import
