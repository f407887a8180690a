// reshape(x) -> y: the same elements in the same order under other dims; a view.
//
// Factors. Walking both shapes from the left, the shorter of two dims that begin at one place is a
// factor and the major part of the longer one, as far as lengths divide:
//
//   [4,6] -> [2,12]    a=2, then 4/2 = 2 against 12: b=2, then 6 against 6: c=6    "(a b) c -> a (b
//   c)"
//
// Where they do not ([4,6] -> [6,4]), all further dims stay whole.
#include <fmt/format.h>

#include <algorithm>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType y{shape_attr(call, "reshape"), x.dtype};
  const auto elements = [](const Shape& shape) {  // the number of batched dims, and the product
    std::pair<int, Dim> product{0, 1};
    for (const Dim dim : shape) {
      product.first += dim.batched ? 1 : 0;
      product.second = product.second * Dim(dim.size);
    }
    return product;
  };
  require(elements(x.shape) == elements(y.shape), "reshape: {} has not as many elements as {}",
          format_type(x), format_type(y));
  return {y};
}

// One shape on the way from left to right: the letters of each dim so far, and what is left of the
// current dim.
struct Walk {
  explicit Walk(const Shape& dims) : shape(dims) { open(); }

  void open() {
    for (; at < shape.size() && shape[at] == Dim(1); ++at) {
      letters.emplace_back("1");
    }
    if (at < shape.size()) {
      rest = shape[at];
      letters.emplace_back();
    }
  }
  [[nodiscard]] bool done() const { return at == shape.size(); }
  void take(char letter, Dim factor) {
    letters.back() += letter;
    if (rest == factor) {
      ++at;
      open();
    } else {
      rest = Dim(rest.size / factor.size, rest.batched && !factor.batched);
    }
  }
  // "b s (h d)"
  [[nodiscard]] std::string text() const {
    std::string joined;
    for (const std::string& dim : letters) {
      joined += joined.empty() ? "" : " ";
      joined += dim.size() == 1 ? dim : fmt::format("({})", fmt::join(dim, " "));
    }
    return joined;
  }

  const Shape& shape;
  std::vector<std::string> letters;
  std::size_t at = 0;
  Dim rest;
};

// Samples lie outermost in a batched dim, so nothing unbatched is the major part of one.
bool divides(Dim a, Dim b) {
  return a.batched == b.batched && b.size % a.size == 0;
}

// Dims from `begin` on get letters of their own, which stay whole.
void keep_whole(Walk& walk, std::size_t begin, Letters& names, std::string& whole) {
  walk.letters.resize(begin);
  for (; begin < walk.shape.size(); ++begin) {
    walk.letters.emplace_back(1, names.next("reshape"));
    whole += walk.letters.back();
  }
  walk.at = walk.shape.size();
}

FactorRule factors(const OpCall& call) {
  Letters names;
  std::string whole;
  Walk x(call.inputs[0].shape);
  Walk y(call.outputs[0].shape);
  std::pair<std::size_t, std::size_t> aligned{x.at, y.at};  // where both begin a dim
  while (!x.done() && !y.done()) {
    const bool x_is_shorter = divides(x.rest, y.rest);
    if (!x_is_shorter && !divides(y.rest, x.rest)) {
      keep_whole(x, aligned.first, names, whole);
      keep_whole(y, aligned.second, names, whole);
      break;
    }
    const Dim factor = x_is_shorter ? x.rest : y.rest;
    const bool both_end = x.rest == y.rest;
    const char name = names.next("reshape");
    x.take(name, factor);
    y.take(name, factor);
    if (both_end) {
      aligned = {x.at, y.at};
    }
  }
  return {.dims = x.text() + " -> " + y.text(), .whole = whole, .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1};
  }
  const std::string shape = shape_text(b.build.type(b.inputs[0]).shape);
  return {b.build.emit("reshape", {b.output_grads[0]}, {{"shape", shape}})};
}

Cost cost(const OpCall&) {
  return {};
}

KernelSteps kernel(const OpCall& call) {
  Ints sizes;
  for (const Dim dim : call.outputs[0].shape) {
    sizes.push_back(dim.size);
  }
  KernelSteps k(1);
  k.out(k.call("aten::view", {k.in(0), sizes}));
  return k;
}

}  // namespace

OpDef reshape() {
  return {.name = "reshape",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .aliases = {{.output = 0, .input = 0, .in_place = false}},
          .kernel = kernel};
}

}  // namespace weft::ops
