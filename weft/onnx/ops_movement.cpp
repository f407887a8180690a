// Ops that move elements: shapes, orders of dims, parts and repetitions.
#include <algorithm>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"
#include "weft/onnx/fold.h"

namespace weft::onnx_import {

namespace {

constexpr std::int64_t kMostBlock = 1 << 20;  // so that no product overflows

Shape shape_of(const std::vector<Whole>& sizes) {
  Shape shape;
  for (const Whole n : sizes) {
    if (n.n <= 0) {
      throw Unsupported{"a tensor without elements"};
    }
    shape.emplace_back(n.n, n.batched);
  }
  return shape;
}

void emit_reshape(const Call& call) {
  const std::vector<Whole> sizes = reshaped_sizes(
      known_shape(call.shape(0)).wholes, known_sizes(call, 1), call.whole("allowzero", 0) != 0);
  call.give(0, reshape(call.b, call.value(0), shape_of(sizes)), call.element(0));
}

void emit_flatten(const Call& call) {
  const std::int64_t asked = call.whole("axis", 1);
  const int rank = call.rank(0);
  call.need(asked >= -rank && asked <= rank, "an axis that is none");
  const std::int64_t axis = asked < 0 ? asked + rank : asked;
  Shape shape = {1, 1};
  for (int d = 0; d < rank; ++d) {
    Dim& part = shape[d < axis ? 0 : 1];
    part = part * call.shape(0)[static_cast<std::size_t>(d)];
  }
  call.give(0, reshape(call.b, call.value(0), shape), call.element(0));
}

void emit_unsqueeze(const Call& call) {
  const Ints axes = call.list("axes", 1);
  call.need(axes.size() <= kMostKnownDims, "of so many dims");
  Shape shape = call.shape(0);
  for (const std::int64_t axis :
       sorted_axes(call, axes, call.rank(0) + static_cast<int>(axes.size()))) {
    shape.insert(shape.begin() + axis, Dim(1));
  }
  call.give(0, reshape(call.b, call.value(0), shape), call.element(0));
}

void emit_squeeze(const Call& call) {
  const Ints axes = sorted_axes(call, call.list("axes", 1), call.rank(0));
  Shape shape;
  for (int d = 0; d < call.rank(0); ++d) {
    const Dim dim = call.shape(0)[static_cast<std::size_t>(d)];
    const bool named = std::ranges::find(axes, d) != axes.end();
    call.need(!named || dim == Dim(1), "of a dim longer than one");
    if (!named && !(axes.empty() && dim == Dim(1))) {
      shape.push_back(dim);
    }
  }
  call.give(0, reshape(call.b, call.value(0), shape), call.element(0));
}

// Between [b,c,h,w] and [b,h,w,c] nothing moves if the image lies the other way already. The
// transposed matrix of a weight is kept as such: MatMul takes the weight itself.
void emit_transpose(const Call& call) {
  Operand& x = call.in(0);
  Ints perm = call.wholes("perm");
  for (int d = x.rank(); call.wholes("perm").empty() && d-- > 0;) {
    perm.push_back(d);
  }
  Ints sorted = perm;
  std::ranges::sort(sorted);
  call.need(static_cast<int>(perm.size()) == x.rank() &&
                std::ranges::adjacent_find(sorted) == sorted.end() &&
                (sorted.empty() || (sorted.front() == 0 && sorted.back() == x.rank() - 1)),
            "a permutation of other dims");
  if (x.channels_last >= 0 && perm == to_channels_last(x.rank())) {
    call.give(0, x.channels_last, x.element);
    return;
  }
  if (x.rank() >= 3 && x.plain >= 0 && perm == from_channels_last(x.rank()) && x.rank() == 4) {
    call.give_channels_last(0, x.plain, x.element);
    return;
  }
  if (x.rank() == 2 && perm == Ints{1, 0} && x.initializer != nullptr && is_real(x.element)) {
    Operand swapped;
    swapped.name = call.node.outputs.at(0);
    swapped.element = x.element;
    swapped.shape = {x.shape[1], x.shape[0]};
    swapped.swapped = call.value(0);
    call.importer.define(std::move(swapped));
    return;
  }
  call.give(0, transpose(call.b, call.value(0), perm), x.element);
}

void emit_expand(const Call& call) {
  const Shape shape = shape_of(known_sizes(call, 1));
  call.give(0, broadcast(call.b, call.value(0), common_shape(call.shape(0), shape)),
            call.element(0));
}

void emit_constant_of_shape(const Call& call) {
  const Shape shape = shape_of(known_sizes(call, 0));
  Known value = known_scalar(0, Element::f32);
  if (const FileAttr* attr = call.attr("value")) {
    const auto* tensor = std::get_if<FileTensor>(attr);
    call.need(tensor != nullptr && tensor->elements() == 1, "without a number");
    value = decode(*tensor);
  }
  const DType dtype = call.importer.dtype(value.element);
  call.give(0, broadcast(call.b, scalar(call.b, value.number(0), dtype), shape), value.element);
}

// [n, m] repeated (2, 3) times: [1, n, 1, m] -> [2, n, 3, m] -> [2 n, 3 m]
void emit_tile(const Call& call) {
  const Known& repeats = call.known(1, "the repeats");
  call.need(repeats.elements() == call.rank(0), "repeats of other dims");
  Shape apart;
  Shape repeated;
  Shape result;
  for (int d = 0; d < call.rank(0); ++d) {
    const Dim dim = call.shape(0)[static_cast<std::size_t>(d)];
    const Whole times = repeats.wholes.at(static_cast<std::size_t>(d));
    call.need(times.n > 0, "no repeats");
    if (times == Whole{1, false}) {
      for (Shape* shape : {&apart, &repeated, &result}) {
        shape->push_back(dim);
      }
      continue;
    }
    apart.insert(apart.end(), {Dim(1), dim});
    repeated.insert(repeated.end(), {Dim(times.n, times.batched), dim});
    result.push_back(Dim(times.n, times.batched) * dim);
  }
  const ValueId y = broadcast(call.b, reshape(call.b, call.value(0), apart), repeated);
  call.give(0, reshape(call.b, y, result), call.element(0));
}

void emit_concat(const Call& call) {
  const int rank = call.rank(0);
  const int axis = call.axis(call.whole("axis", 0), rank);
  bool images = rank >= 3;
  for (int i = 0; i < call.inputs(); ++i) {
    images = images && call.in(i).channels_last >= 0 && call.in(i).plain < 0;
  }
  std::vector<ValueId> parts;
  for (int i = 0; i < call.inputs(); ++i) {
    parts.push_back(images ? call.channels_last(i) : call.value(i));
  }
  if (images) {
    const int dim = axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
    call.give_channels_last(0, concat(call.b, parts, dim), call.element(0));
  } else {
    call.give(0, concat(call.b, parts, axis), call.element(0));
  }
}

void emit_split(const Call& call) {
  const int axis = call.axis(call.whole("axis", 0), call.rank(0));
  const Dim length = call.shape(0)[static_cast<std::size_t>(axis)];
  call.need(!length.batched, "of the batch");
  Ints sizes = call.list("split", 1);
  if (sizes.empty()) {
    const auto parts = static_cast<std::int64_t>(call.node.outputs.size());
    call.need(parts > 0 && length.size % parts == 0, "into unequal parts");
    sizes.assign(static_cast<std::size_t>(parts), length.size / parts);
  }
  call.need(sizes.size() == call.node.outputs.size(), "into other parts than outputs");
  call.need(sizes.size() > 1 || sizes[0] == length.size, "into a part of another size");
  for (const std::int64_t size : sizes) {
    call.need(size > 0, "into a part without elements");
  }
  if (sizes.size() == 1) {
    call.give(0, call.value(0), call.element(0));
    return;
  }
  const std::vector<ValueId> parts =
      call.b.emit_all("split", {call.value(0)}, {{"dim", std::int64_t{axis}}, {"sizes", sizes}});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    call.give(static_cast<int>(i), parts[i], call.element(0));
  }
}

void emit_slice(const Call& call) {
  const Ints starts = call.list("starts", 1);
  const Ints ends = call.list("ends", 2);
  const Ints axes = call.list("axes", 3);
  const Ints steps = call.has(4) ? whole_list(call.known(4, "the steps")) : Ints{};
  const auto rank = static_cast<std::size_t>(call.rank(0));
  Ints first(rank, 0);
  Ints sizes(rank, 0);
  Ints strides(rank, 1);
  bool changes = false;
  call.need(starts.size() == ends.size(), "as many starts as ends");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t wanted = axes.empty() ? static_cast<std::int64_t>(i) : axes.at(i);
    const auto d = static_cast<std::size_t>(call.axis(wanted, call.rank(0)));
    const Dim dim = call.shape(0)[d];
    const std::int64_t step = steps.empty() ? 1 : steps.at(i);
    if (dim.batched) {
      call.need(starts[i] == 0 && ends[i] > (std::int64_t{1} << 30) && step == 1, "of the batch");
      continue;
    }
    call.need(sizes[d] == 0, "an axis given twice");
    const SliceRange range = slice_range(dim.size, starts[i], ends[i], step);
    call.need(range.size > 0, "of no elements");
    first[d] = range.start;
    sizes[d] = range.size;
    strides[d] = range.step;
    changes = changes || range.size != dim.size || range.step != 1;
  }
  ValueId y = call.value(0);
  if (changes) {
    y = call.b.emit("slice", {y}, {{"starts", first}, {"sizes", sizes}, {"steps", strides}});
  }
  call.give(0, y, call.element(0));
}

// In ONNX all the pads before come first; attributes until opset 10.
void emit_pad(const Call& call) {
  const Ints pads = call.list("pads", 1);
  const auto rank = static_cast<std::size_t>(call.rank(0));
  call.need(pads.size() == 2 * rank, "pads of other dims");
  const std::string mode = call.text("mode", "constant");
  const double value = call.has(2)              ? call.known(2, "the value").number(0)
                       : call.has_attr("value") ? call.real("value", 0)
                                                : 0;
  const bool image = call.in(0).channels_last >= 0 && call.in(0).plain < 0;
  const Ints order = image ? to_channels_last(call.rank(0)) : Ints{};
  Ints before;
  Ints after;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto from = image ? static_cast<std::size_t>(order[d]) : d;
    before.push_back(pads[from]);
    after.push_back(pads[rank + from]);
  }
  ValueId y = image ? call.channels_last(0) : call.value(0);
  if (std::ranges::any_of(pads, [](std::int64_t n) { return n != 0; })) {
    y = call.b.emit("pad", {y},
                    {{"before", before}, {"after", after}, {"mode", mode}, {"value", value}});
  }
  if (image) {
    call.give_channels_last(0, y, call.element(0));
  } else {
    call.give(0, y, call.element(0));
  }
}

// [b, c, h, w] with blocks of r: channels and places change sides.
void emit_depth_to_space(const Call& call) {
  const std::int64_t r = call.whole("blocksize", 0);
  const Shape& x = call.shape(0);
  call.need(x.size() == 4 && r > 0 && r < kMostBlock && x[1].size % (r * r) == 0,
            "channels that do not divide");
  const std::int64_t c = x[1].size / (r * r);
  const bool depth_first = call.text("mode", "DCR") == "DCR";
  const Shape apart =
      depth_first ? Shape{x[0], r, r, c, x[2], x[3]} : Shape{x[0], c, r, r, x[2], x[3]};
  const Ints perm = depth_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3};
  ValueId y = transpose(call.b, reshape(call.b, call.value(0), apart), perm);
  y = reshape(call.b, y, {x[0], c, x[2].size * r, x[3].size * r});
  call.give(0, y, call.element(0));
}

void emit_space_to_depth(const Call& call) {
  const std::int64_t r = call.whole("blocksize", 0);
  const Shape& x = call.shape(0);
  call.need(x.size() == 4 && r > 0 && r < kMostBlock && x[2].size % r == 0 && x[3].size % r == 0,
            "sides that do not divide");
  const Shape apart = {x[0], x[1], x[2].size / r, r, x[3].size / r, r};
  ValueId y = transpose(call.b, reshape(call.b, call.value(0), apart), {0, 3, 5, 1, 2, 4});
  y = reshape(call.b, y, {x[0], x[1].size * r * r, x[2].size / r, x[3].size / r});
  call.give(0, y, call.element(0));
}

void emit_trilu(const Call& call) {
  const bool upper = call.whole("upper", 1) != 0;
  const std::int64_t k = call.has(1) ? call.known(1, "the diagonal").whole(0) : 0;
  const ValueId y =
      call.b.emit("trilu", {call.value(0)}, {{"upper", std::int64_t{upper ? 1 : 0}}, {"k", k}});
  call.give(0, y, call.element(0));
}

}  // namespace

std::vector<OnnxOp> movement_ops() {
  return {{"Concat", emit_concat},
          {"ConstantOfShape", emit_constant_of_shape},
          {"DepthToSpace", emit_depth_to_space},
          {"Expand", emit_expand},
          {"Flatten", emit_flatten},
          {"Pad", emit_pad},
          {"Reshape", emit_reshape},
          {"Slice", emit_slice},
          {"SpaceToDepth", emit_space_to_depth},
          {"Split", emit_split},
          {"Squeeze", emit_squeeze},
          {"Tile", emit_tile},
          {"Transpose", emit_transpose},
          {"Trilu", emit_trilu},
          {"Unsqueeze", emit_unsqueeze}};
}

}  // namespace weft::onnx_import
