// matmul(a[…,m,k], b[…,k,n]) -> c[…,m,n], one product for each entry of the leading dims.
//
// `transpose_a` (`transpose_b`) says that the last two dims of a (of b) are stored swapped. So the
// gradients are products of the same kind and nothing is ever transposed in memory:
//
//   C = A B:   dA = dC Bᵀ,  dB = Aᵀ dC;   of a matrix stored swapped the gradient is swapped as
//   well.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

bool flag(const Attrs& attrs, std::string_view name) {
  return has_attr(attrs, name) && attr_int(attrs, name) != 0;
}

// Rows and columns of the matrix that an input stands for.
struct Sides {
  Dim rows;
  Dim columns;
};

Sides sides(const TensorType& type, bool transposed) {
  const Dim first = type.shape[type.shape.size() - 2];
  const Dim last = type.shape.back();
  return transposed ? Sides{last, first} : Sides{first, last};
}

Shape leading(const TensorType& type) {
  return {type.shape.begin(), type.shape.end() - 2};
}

TensorTypes infer(const OpCall& call) {
  require_floating(call, "matmul", 0);
  const TensorType& a = call.inputs[0];
  const TensorType& b = call.inputs[1];
  require(a.rank() >= 2 && a.rank() <= 5 && b.rank() == a.rank() && a.dtype == b.dtype &&
              leading(a) == leading(b),
          "matmul: {} and {} do not fit; both need the same dtype and the same leading dims",
          format_type(a), format_type(b));
  const Sides left = sides(a, flag(call.attrs, "transpose_a"));
  const Sides right = sides(b, flag(call.attrs, "transpose_b"));
  require(left.columns == right.rows,
          "matmul: the inner dims of {} and {} differ (transpose_a {}, transpose_b {})",
          format_type(a), format_type(b), flag(call.attrs, "transpose_a"),
          flag(call.attrs, "transpose_b"));
  Shape shape = leading(a);
  shape.push_back(left.rows);
  shape.push_back(right.columns);
  return {{shape, a.dtype}};
}

FactorRule factors(const OpCall& call) {
  const int n = call.inputs[0].rank() - 2;
  const std::string a = letters(n, flag(call.attrs, "transpose_a") ? "k m" : "m k");
  const std::string b = letters(n, flag(call.attrs, "transpose_b") ? "n k" : "k n");
  return {.dims = a + ", " + b + " -> " + letters(n, "m n"), .linear = {{0}, {1}}};
}

ValueId product(const Backward& b, std::vector<ValueId> inputs, bool transpose_a,
                bool transpose_b) {
  return b.build.emit(
      "matmul", std::move(inputs),
      {{"transpose_a", std::int64_t{transpose_a}}, {"transpose_b", std::int64_t{transpose_b}}});
}

std::vector<ValueId> gradient(const Backward& b) {
  const ValueId left = b.inputs[0];
  const ValueId right = b.inputs[1];
  const ValueId dc = b.output_grads[0];
  const bool ta = flag(b.node.attrs, "transpose_a");
  const bool tb = flag(b.node.attrs, "transpose_b");
  std::vector<ValueId> grads(2, -1);
  if (b.wanted[0]) {
    grads[0] = ta ? product(b, {right, dc}, tb, true) : product(b, {dc, right}, false, !tb);
  }
  if (b.wanted[1]) {
    grads[1] = tb ? product(b, {dc, left}, true, ta) : product(b, {left, dc}, !ta, false);
  }
  return grads;
}

Cost cost(const OpCall& call) {
  const Sides right = sides(call.inputs[1], flag(call.attrs, "transpose_b"));
  return streaming_cost(call, 2.0 * static_cast<double>(right.columns.size));
}

KernelSteps kernel(const OpCall& call) {
  KernelSteps k(2);
  const auto side = [&](int i, std::string_view name) {
    return flag(call.attrs, name)
               ? k.call("aten::transpose.int", {k.in(i), std::int64_t{-2}, std::int64_t{-1}})
               : k.in(i);
  };
  const KernelSlot a = side(0, "transpose_a");
  const KernelSlot b = side(1, "transpose_b");
  k.out(k.call("aten::matmul", {a, b}));
  return k;
}

}  // namespace

OpDef matmul() {
  return {.name = "matmul",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .kernel = kernel};
}

}  // namespace weft::ops
