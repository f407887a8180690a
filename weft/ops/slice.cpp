// slice(x) -> y: along each dim, `sizes[d]` entries from `starts[d]` on, every `steps[d]`-th.
//
// A size of 0 or -1 leaves the dim as it is; a negative step walks backwards, so a start at the
// end, the whole length and a step of -1 reverse a dim. A negative start counts from the end. Dims
// that are cut stay whole on a device; the others, the batch among them, may be split.
//
// The gradient puts dy back to its places in zeros; `lengths` are those of x where it was cut.
#include <fmt/format.h>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

struct Cut {
  std::int64_t start = 0;
  std::int64_t size = 0;
  std::int64_t step = 1;
};

Cut cut_of(const Attrs& attrs, std::size_t dim) {
  return {.start = attr_ints(attrs, "starts")[dim],
          .size = attr_ints(attrs, "sizes")[dim],
          .step = attr_ints(attrs, "steps")[dim]};
}

bool is_cut(const Cut& cut) {
  return cut.size > 0;
}

void require_lists(const Attrs& attrs, int rank, std::string_view op,
                   std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    require(static_cast<int>(attr_ints(attrs, name).size()) == rank,
            "{}: {} has {} entries, but the tensor has {} dims", op, name,
            attr_ints(attrs, name).size(), rank);
  }
}

void require_inside(const Cut& cut, std::int64_t length, std::size_t dim, std::string_view op) {
  const std::int64_t first = cut.start < 0 ? cut.start + length : cut.start;
  std::int64_t last = 0;
  const bool counts = !__builtin_mul_overflow(cut.size - 1, cut.step, &last) &&
                      !__builtin_add_overflow(first, last, &last);
  require(counts && cut.step != 0 && first >= 0 && first < length && last >= 0 && last < length,
          "{}: {} entries from {} with step {} are not all inside of dim {}, which has length {}",
          op, cut.size, cut.start, cut.step, dim, length);
}

TensorTypes infer(const OpCall& call) {
  TensorType y = call.inputs[0];
  require_lists(call.attrs, y.rank(), "slice", {"starts", "sizes", "steps"});
  for (std::size_t d = 0; d < y.shape.size(); ++d) {
    const Cut cut = cut_of(call.attrs, d);
    if (is_cut(cut)) {
      require(!y.shape[d].batched, "slice: dim {} of {} is the batch; samples cannot be cut out", d,
              format_type(y));
      require_inside(cut, y.shape[d].size, d, "slice");
      y.shape[d] = Dim(cut.size);
    }
  }
  return {y};
}

FactorRule factors(const OpCall& call) {
  Letters next;
  std::string x;
  std::string y;
  std::string whole;
  for (std::size_t d = 0; d < call.inputs[0].shape.size(); ++d) {
    x += next.next("slice");
    y += is_cut(cut_of(call.attrs, d)) ? next.next("slice") : x.back();
    if (x.back() != y.back()) {
      whole += {x.back(), y.back()};
    }
  }
  return {.dims = spaced(x) + " -> " + spaced(y), .whole = whole, .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  const Shape& x = b.build.type(b.inputs[0]).shape;
  Attrs attrs = b.node.attrs;
  Ints lengths(x.size(), 0);
  for (std::size_t d = 0; d < x.size(); ++d) {
    lengths[d] = is_cut(cut_of(attrs, d)) ? x[d].size : 0;
  }
  attrs["lengths"] = lengths;
  return {b.build.emit("slice_backward", {b.output_grads[0]}, attrs)};
}

Cost cost(const OpCall& call) {
  return {.flops = 0, .bytes_moved = 2.0 * static_cast<double>(call.outputs[0].bytes())};
}

TensorTypes infer_backward(const OpCall& call) {
  TensorType x = call.inputs[0];
  require_floating(call, "slice_backward", 0);
  require_lists(call.attrs, x.rank(), "slice_backward", {"starts", "sizes", "steps", "lengths"});
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    const Cut cut = cut_of(call.attrs, d);
    if (is_cut(cut)) {
      const std::int64_t length = attr_ints(call.attrs, "lengths")[d];
      require(x.shape[d] == Dim(cut.size), "slice_backward: dim {} of {} is not of size {}", d,
              format_type(x), cut.size);
      require_inside(cut, length, d, "slice_backward");
      x.shape[d] = Dim(length);
    }
  }
  return {x};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 0);
}

}  // namespace

OpDef slice() {
  return {.name = "slice",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef slice_backward() {
  return {.name = "slice_backward",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_backward,
          .factors = factors,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
