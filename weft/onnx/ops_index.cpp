// Ops that pick entries by number.
#include <algorithm>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"
#include "weft/onnx/fold.h"

namespace weft::onnx_import {

namespace {

ValueId indices(const Call& call, int i) {
  return cast(call.b, call.value(i), DType::i64);
}

// One entry that is known when the graph is read is a slice; rows of a table by tokens are an
// embedding.
void emit_gather(const Call& call) {
  Builder& b = call.b;
  const int axis = call.axis(call.whole("axis", 0), call.rank(0));
  const Dim length = call.shape(0)[static_cast<std::size_t>(axis)];
  if (call.is_known(1) && call.rank(1) == 0 && !length.batched) {
    std::int64_t id = call.known(1, "the index").whole(0);
    id = id < 0 ? id + length.size : id;
    call.need(id >= 0 && id < length.size, "an index out of range");
    const ValueId entry = slice(b, call.value(0), axis, id, 1);
    Shape shape = call.shape(0);
    shape.erase(shape.begin() + axis);
    call.give(0, reshape(b, entry, shape), call.element(0));
    return;
  }
  const bool table = axis == 0 && call.rank(0) == 2 && call.in(0).initializer != nullptr &&
                     is_real(call.element(0)) && call.rank(1) >= 1 && call.rank(1) <= 3 &&
                     !call.is_known(1);
  if (table) {
    call.give(0, b.emit("embedding", {call.value(0), indices(call, 1)}), call.element(0));
    return;
  }
  const ValueId y =
      b.emit("gather", {call.value(0), indices(call, 1)}, {{"dim", std::int64_t{axis}}});
  call.give(0, y, call.element(0));
}

// Indices may be fewer than x in dims other than the axis; then x is cut to them.
void emit_gather_elements(const Call& call) {
  const int axis = call.axis(call.whole("axis", 0), call.rank(0));
  call.need(call.rank(0) == call.rank(1), "indices of other dims");
  ValueId x = call.value(0);
  for (int d = 0; d < call.rank(0); ++d) {
    const Dim length = call.shape(1)[static_cast<std::size_t>(d)];
    if (d != axis && length != call.shape(0)[static_cast<std::size_t>(d)]) {
      call.need(!length.batched, "of a part of the batch");
      x = slice(call.b, x, d, 0, length.size);
    }
  }
  const ValueId y =
      call.b.emit("gather_elements", {x, indices(call, 1)}, {{"dim", std::int64_t{axis}}});
  call.give(0, y, call.element(0));
}

void emit_gather_nd(const Call& call) {
  const ValueId y = call.b.emit("gather_nd", {call.value(0), indices(call, 1)},
                                {{"batch_dims", call.whole("batch_dims", 0)}});
  call.give(0, y, call.element(0));
}

void emit_scatter_elements(const Call& call) {
  const int axis = call.axis(call.whole("axis", 0), call.rank(0));
  for (int d = 0; d < call.rank(0); ++d) {
    const auto at = static_cast<std::size_t>(d);
    call.need(call.rank(1) == call.rank(0) && (d == axis || call.shape(1)[at] == call.shape(0)[at]),
              "indices that do not cover the other dims");
  }
  const ValueId y =
      call.b.emit("scatter_elements", {call.value(0), indices(call, 1), call.value(2)},
                  {{"dim", std::int64_t{axis}}, {"reduction", call.text("reduction", "none")}});
  call.give(0, y, call.element(0));
}

void emit_scatter_nd(const Call& call) {
  const ValueId y = call.b.emit("scatter_nd", {call.value(0), indices(call, 1), call.value(2)},
                                {{"reduction", call.text("reduction", "none")}});
  call.give(0, y, call.element(0));
}

void emit_one_hot(const Call& call) {
  const std::int64_t depth = call.known(1, "the depth").whole(0);
  const Known& values = call.known(2, "the values");
  const int axis = call.axis(call.whole("axis", -1), call.rank(0) + 1);
  ValueId ids = call.value(0);
  ids = cast(call.b, ids, DType::i64);
  const DType dtype = call.importer.dtype(values.element);
  ValueId y = call.b.emit("one_hot", {ids},
                          {{"depth", depth},
                           {"dtype", std::string(dtype_name(dtype))},
                           {"on", values.number(1)},
                           {"off", values.number(0)}});
  Ints perm;
  for (int d = 0; d < call.rank(0); ++d) {
    perm.push_back(d);
  }
  perm.insert(perm.begin() + axis, call.rank(0));
  call.give(0, transpose(call.b, y, perm), values.element);
}

// Only the shape of x matters.
void emit_eye_like(const Call& call) {
  const Shape& shape = call.shape(0);
  const std::int64_t k = call.whole("k", 0);
  constexpr std::int64_t kMost = 1 << 30;
  call.need(shape.size() == 2 && is_bound(shape) && k > -kMost && k < kMost,
            "of other than a matrix of known size");
  const Element element =
      call.has_attr("dtype") ? element_of(call.whole("dtype", 1)) : call.element(0);
  call.need(is_real(element) || is_whole(element), "of strings");
  call.importer.count_read(checked_elements({shape[0].size, shape[1].size}));
  Known eye = strided(known_scalar(0, element), {shape[0].size, shape[1].size}, {0, 0});
  for (std::int64_t i = std::max<std::int64_t>(0, -k); i < shape[0].size; ++i) {
    if (i + k >= shape[1].size) {
      break;
    }
    const auto at = static_cast<std::size_t>(i * shape[1].size + i + k);
    if (is_real(element)) {
      eye.reals[at] = 1;
    } else {
      eye.wholes[at].n = 1;
    }
  }
  call.give(0, std::move(eye));
}

Known list_of(const Ints& numbers) {
  std::vector<Whole> wholes;
  for (const std::int64_t n : numbers) {
    wholes.push_back({n, false});
  }
  return known_wholes(wholes);
}

/// Entries of x along an axis by numbers that are known now.
ValueId picked_entries(const Call& call, ValueId x, int axis, const Known& numbers) {
  return call.b.emit("gather", {x, call.constant(numbers, "indices")},
                     {{"dim", std::int64_t{axis}}});
}

void emit_compress(const Call& call) {
  const Known& condition = call.known(1, "the condition");
  call.importer.count_read(condition.elements());
  const bool flat = !call.has_attr("axis");
  ValueId x = call.value(0);
  int axis = 0;
  if (flat) {
    Dim all(1);
    for (const Dim dim : call.shape(0)) {
      all = all * dim;
    }
    x = reshape(call.b, x, {all});
  } else {
    axis = call.axis(call.whole("axis", 0), call.rank(0));
  }
  Ints chosen;
  for (std::int64_t i = 0; i < condition.elements(); ++i) {
    if (condition.whole(i) != 0) {
      chosen.push_back(i);
    }
  }
  const Dim length = call.b.type(x).shape[static_cast<std::size_t>(axis)];
  call.need(!chosen.empty() && !length.batched && chosen.back() < length.size,
            "of elements that are not there");
  call.give(0, picked_entries(call, x, axis, list_of(chosen)), call.element(0));
}

// The first lengths[b] entries of each sample in reverse order: numbers known now, so a table of
// places.
void emit_reverse_sequence(const Call& call) {
  const Known& lengths = call.known(1, "the lengths");
  const int batch = call.axis(call.whole("batch_axis", 1), call.rank(0));
  const int time = call.axis(call.whole("time_axis", 0), call.rank(0));
  const Shape& shape = call.shape(0);
  call.need(is_bound(shape) && batch + time == 1, "with other axes");
  const std::int64_t samples = shape[static_cast<std::size_t>(batch)].size;
  const std::int64_t steps = shape[static_cast<std::size_t>(time)].size;
  call.need(lengths.elements() == samples, "lengths of other samples");
  const std::int64_t all = checked_elements({shape[0].size, shape[1].size});
  call.importer.count_read(all);
  Ints rows;
  for (std::int64_t i = 0; i < all; ++i) {
    const std::int64_t first = i / shape[1].size;
    const std::int64_t second = i % shape[1].size;
    const std::int64_t sample = batch == 0 ? first : second;
    const std::int64_t step = batch == 0 ? second : first;
    const std::int64_t length = lengths.whole(sample);
    call.need(length >= 0 && length <= steps, "a length out of range");
    const std::int64_t from = step < length ? length - 1 - step : step;
    rows.push_back(batch == 0 ? sample * steps + from : from * samples + sample);
  }
  Shape flat(shape.begin() + 1, shape.end());
  flat[0] = shape[0] * shape[1];
  const ValueId y = picked_entries(call, reshape(call.b, call.value(0), flat), 0, list_of(rows));
  call.give(0, reshape(call.b, y, shape), call.element(0));
}

// A range whose numbers are known is folded; its length must be.
void emit_range(const Call& call) {
  (void)call.known(0, "the start");
  (void)call.known(1, "the limit");
  (void)call.known(2, "the step");
}

}  // namespace

std::vector<OnnxOp> index_ops() {
  return {{"Compress", emit_compress},
          {"EyeLike", emit_eye_like},
          {"Gather", emit_gather},
          {"GatherElements", emit_gather_elements},
          {"GatherND", emit_gather_nd},
          {"OneHot", emit_one_hot},
          {"Range", emit_range},
          {"ReverseSequence", emit_reverse_sequence},
          {"Scatter", emit_scatter_elements},
          {"ScatterElements", emit_scatter_elements},
          {"ScatterND", emit_scatter_nd}};
}

}  // namespace weft::onnx_import
