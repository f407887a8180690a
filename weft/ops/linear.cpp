// linear(x[…,k], w[n,k], bias[n]?) -> y[…,n]
//
//   y  = x wᵀ + bias
//   dx = dy w,   dw = dyᵀ x over all rows,   dbias = sum of dy over all rows
//
// The three gradients are nodes of their own: earlier layers wait for dx, nobody waits for dw and
// dbias. A device with a part of k holds a partial sum of y; with a bias every device would add it,
// so then k stays whole.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/gemm_bf16.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

// All dims but the last, then `last`.
Shape rows_of(const TensorType& type, Dim last) {
  Shape shape(type.shape.begin(), type.shape.end() - 1);
  shape.push_back(last);
  return shape;
}

void require_rows(const OpCall& call, std::string_view op, int i) {
  const TensorType& type = call.inputs[static_cast<std::size_t>(i)];
  require_floating(call, op, i);
  require(type.rank() >= 2 && type.rank() <= 4,
          "{}: input {} is {}; it needs two to four dims, the last of them the features", op, i,
          format_type(type));
}

// 2 m n k for a product of [m,k] and [k,n], where m counts all rows.
Cost gemm_cost(const OpCall& call, double m, double n, double k) {
  Cost cost = streaming_cost(call, 0);
  cost.flops = 2.0 * m * n * k;
  return cost;
}

// bf16 is multiplied in f32, block by block.
std::int64_t gemm_workspace(const TensorType& rows, std::int64_t m, std::int64_t n,
                            std::int64_t k) {
  return rows.dtype == DType::bf16 ? bf16_blocks(m, n, k).numbers() * element_bytes(DType::f32) : 0;
}

std::int64_t row_count(const TensorType& type) {
  return type.elements() / std::max<std::int64_t>(type.size(-1), 1);
}

double rows(const TensorType& type) {
  return static_cast<double>(type.elements()) / static_cast<double>(type.size(-1));
}

// ---- linear
// --------------------------------------------------------------------------------------

TensorTypes infer(const OpCall& call) {
  require_rows(call, "linear", 0);
  const TensorType& x = call.inputs[0];
  const TensorType& w = call.inputs[1];
  require(w.rank() == 2 && w.shape[1] == x.shape.back() && w.dtype == x.dtype,
          "linear: weight {} does not fit input {}; it must be [out, in] of the same dtype",
          format_type(w), format_type(x));
  if (call.inputs.size() == 3) {
    const TensorType want{{w.shape[0]}, w.dtype};
    require(call.inputs[2] == want, "linear: bias {} does not fit weight {}; it must be {}",
            format_type(call.inputs[2]), format_type(w), format_type(want));
  }
  return {{rows_of(x, w.shape[0]), x.dtype}};
}

FactorRule factors(const OpCall& call) {
  const int leading = call.inputs[0].rank() - 1;
  const std::string product = letters(leading, "k") + ", n k";
  const std::string result = " -> " + letters(leading, "n");
  if (call.inputs.size() == 3) {
    return {.dims = product + ", n" + result, .whole = "k"};
  }
  return {.dims = product + result, .linear = {{0}, {1}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  const ValueId dy = b.output_grads[0];
  std::vector<ValueId> grads(b.inputs.size(), -1);
  if (b.wanted[0]) {
    grads[0] = b.build.emit("linear_input_grad", {dy, b.inputs[1]});
  }
  if (b.wanted[1]) {
    grads[1] = b.build.emit("linear_weight_grad", {dy, b.inputs[0]});
  }
  if (b.inputs.size() == 3 && b.wanted[2]) {
    grads[2] = b.build.emit("sum_leading", {dy}, {{"keep", std::int64_t{1}}});
  }
  return grads;
}

Cost cost(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType& w = call.inputs[1];
  return gemm_cost(call, rows(x), static_cast<double>(w.size(0)), static_cast<double>(w.size(1)));
}

std::int64_t workspace(const OpCall& call) {
  const TensorType& w = call.inputs[1];
  return gemm_workspace(w, row_count(call.inputs[0]), w.size(0), w.size(1));
}

// ---- linear_input_grad
// ---------------------------------------------------------------------------

TensorTypes infer_input_grad(const OpCall& call) {
  require_rows(call, "linear_input_grad", 0);
  const TensorType& dy = call.inputs[0];
  const TensorType& w = call.inputs[1];
  require(w.rank() == 2 && w.shape[0] == dy.shape.back() && w.dtype == dy.dtype,
          "linear_input_grad: weight {} does not fit gradient {}", format_type(w), format_type(dy));
  return {{rows_of(dy, w.shape[1]), dy.dtype}};
}

FactorRule factors_input_grad(const OpCall& call) {
  const int leading = call.inputs[0].rank() - 1;
  return {.dims = letters(leading, "n") + ", n k -> " + letters(leading, "k"),
          .linear = {{0}, {1}}};
}

std::int64_t workspace_input_grad(const OpCall& call) {
  const TensorType& w = call.inputs[1];
  return gemm_workspace(w, row_count(call.inputs[0]), w.size(1), w.size(0));
}

// ---- linear_weight_grad
// --------------------------------------------------------------------------

TensorTypes infer_weight_grad(const OpCall& call) {
  require_rows(call, "linear_weight_grad", 0);
  require_rows(call, "linear_weight_grad", 1);
  const TensorType& dy = call.inputs[0];
  const TensorType& x = call.inputs[1];
  require(rows_of(dy, 1) == rows_of(x, 1) && dy.dtype == x.dtype,
          "linear_weight_grad: gradient {} does not fit input {}", format_type(dy), format_type(x));
  return {{{dy.shape.back(), x.shape.back()}, dy.dtype}};
}

FactorRule factors_weight_grad(const OpCall& call) {
  const int leading = call.inputs[0].rank() - 1;
  return {.dims = letters(leading, "n") + ", " + letters(leading, "k") + " -> n k",
          .linear = {{0}, {1}}};
}

Cost cost_weight_grad(const OpCall& call) {
  const TensorType& dy = call.inputs[0];
  const TensorType& x = call.inputs[1];
  return gemm_cost(call, rows(dy), static_cast<double>(dy.size(-1)),
                   static_cast<double>(x.size(-1)));
}

std::int64_t workspace_weight_grad(const OpCall& call) {
  const TensorType& dy = call.inputs[0];
  return gemm_workspace(dy, dy.size(-1), call.inputs[1].size(-1), row_count(dy));
}

}  // namespace

OpDef linear() {
  return {.name = "linear",
          .min_inputs = 2,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace};
}

OpDef linear_input_grad() {
  return {.name = "linear_input_grad",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_input_grad,
          .factors = factors_input_grad,
          .no_gradient = "it is itself a gradient",
          .cost = cost,
          .workspace = workspace_input_grad};
}

OpDef linear_weight_grad() {
  return {.name = "linear_weight_grad",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_weight_grad,
          .factors = factors_weight_grad,
          .no_gradient = "it is itself a gradient",
          .cost = cost_weight_grad,
          .workspace = workspace_weight_grad};
}

}  // namespace weft::ops
