// expand(x) -> y of the shape in `shape`: dims of length one, and dims that x lacks in front, are
// repeated (numpy's broadcasting). The gradient is the sum over what was repeated.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType y{shape_attr(call, "expand"), x.dtype};
  bool fits = x.rank() <= y.rank();
  for (int i = 1; fits && i <= x.rank(); ++i) {
    const Dim from = x.shape[static_cast<std::size_t>(x.rank() - i)];
    fits = from == Dim(1) || from == y.shape[static_cast<std::size_t>(y.rank() - i)];
  }
  require(fits, "expand: {} cannot be repeated to {}", format_type(x), format_type(y));
  return {y};
}

/// Is dim i of y a repetition? `x` and `y` are whole shapes or local ones: a dim of length one is
/// never split.
std::vector<bool> repeated(const Shape& x, const Shape& y) {
  const std::size_t added = y.size() - x.size();
  std::vector<bool> flags(y.size(), true);
  for (std::size_t i = added; i < y.size(); ++i) {
    flags[i] = x[i - added] == Dim(1) && y[i] != Dim(1);
  }
  return flags;
}

FactorRule factors(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const Shape& y = call.outputs[0].shape;
  const std::vector<bool> is_repeated = repeated(x, y);
  const std::size_t added = y.size() - x.size();
  Letters next;
  std::string from;
  std::string to;
  for (std::size_t i = 0; i < y.size(); ++i) {
    to += next.next("expand");
    if (i >= added) {
      from += is_repeated[i] ? '1' : to.back();
    }
  }
  return {.dims = spaced(from) + " -> " + spaced(to), .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  const Shape x = b.build.type(b.inputs[0]).shape;
  const Shape y = b.build.type(b.outputs[0]).shape;
  const std::vector<bool> is_repeated = repeated(x, y);
  Ints dims;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (is_repeated[i]) {
      dims.push_back(static_cast<std::int64_t>(i));
    }
  }
  ValueId grad = b.output_grads[0];
  if (!dims.empty()) {
    grad =
        b.build.emit("reduce", {grad},
                     {{"function", std::string("sum")}, {"dims", dims}, {"keep", std::int64_t{0}}});
  }
  if (b.build.type(grad).shape != x) {
    grad = b.build.emit("reshape", {grad}, {{"shape", shape_text(x)}});
  }
  return {grad};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

KernelSteps kernel(const OpCall& call) {
  constexpr std::int64_t kContiguous = 0;  // c10::MemoryFormat
  Ints sizes;
  for (const Dim dim : call.outputs[0].shape) {
    sizes.push_back(dim.size);
  }
  KernelSteps k(1);
  const KernelSlot view = k.call("aten::expand", {k.in(0), sizes, false});
  k.out(k.call("aten::clone", {view, kContiguous}));
  return k;
}

}  // namespace

OpDef expand() {
  return {.name = "expand",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
