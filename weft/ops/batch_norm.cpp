// Batch norm over the whole micro-batch, whatever devices hold its parts. Rows are contracted: each
// device sums over its own, and these partial sums are added up before they are used.
//
//   batch_norm_sums(x[…,c]) -> sum[c], squares[c], count[c]
//   batch_norm_moments(sum, squares, count) -> mean, rstd, variance (unbiased; for running
//   averages) batch_norm(x, mean, rstd, count, w, b) -> y = n w + b,   n = (x - mean) rstd
//
// `count`, the number of rows, is a vector: as a scalar it would lack the letter c, and devices
// that split the channels would add theirs up.
//
// The statistics depend on x, so its gradient goes through them. With the sums over all N rows
//
//   dsum = sum of dy,   dprod = sum of dy n        (batch_norm_grad_sums; also db and dw)
//   dx = w rstd (dy - dsum / N - n dprod / N)      (batch_norm_input_grad)
//
// dx is that whole gradient. batch_norm therefore gives none for mean, rstd and count, and nothing
// flows back into moments and sums: the statistics must not be used by the loss in other ways.
// Sums are f64, so that squares and mean² may be subtracted. Kernels: batch_norm.aten.cpp.

#include "weft/ops/batch_norm.h"

#include <algorithm>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_channels(const OpCall& call, std::string_view op, int i) {
  const TensorType& x = call.inputs[static_cast<std::size_t>(i)];
  require_floating(call, op, i);
  require(x.rank() >= 2 && x.rank() <= 6 && !x.shape.back().batched,
          "{}: input {} is {}; it needs two to six dims, the last of them the channels", op, i,
          format_type(x));
}

// Input i is [c] of one of two dtypes.
void require_vector(const OpCall& call, std::string_view op, int i, DType dtype, DType or_dtype) {
  const TensorType& got = call.inputs[static_cast<std::size_t>(i)];
  const TensorType want{{call.inputs[0].shape.back()}, dtype};
  require(got == want || got == TensorType{want.shape, or_dtype},
          "{}: input {} is {}, but must be {} to fit {}", op, i, format_type(got),
          format_type(want), format_type(call.inputs[0]));
}

std::int64_t rows_of(const TensorType& x) {
  return x.elements() / std::max<std::int64_t>(x.size(-1), 1);
}

// Two sums of each chunk of rows.
std::int64_t chunk_bytes(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  return batch_norm_chunks(rows_of(x)) * 2 * x.size(-1) * element_bytes(DType::f64);
}

std::string image(const OpCall& call) {
  return letters(call.inputs[0].rank() - 1, "c");
}

// ---- batch_norm_sums
// -----------------------------------------------------------------------------

TensorTypes infer_sums(const OpCall& call) {
  require_channels(call, "batch_norm_sums", 0);
  const TensorType sums{{call.inputs[0].shape.back()}, DType::f64};
  return {sums, sums, sums};
}

FactorRule factors_sums(const OpCall& call) {
  return {.dims = image(call) + " -> c, c, c"};
}

Cost cost_sums(const OpCall& call) {
  return streaming_cost(call, 3);
}

// ---- batch_norm_moments
// --------------------------------------------------------------------------

TensorTypes infer_moments(const OpCall& call) {
  const std::string_view op = "batch_norm_moments";
  require(call.inputs[0].rank() == 1 && call.inputs[0].dtype == DType::f64,
          "{}: input 0 is {}, but must be the sums of batch_norm_sums", op,
          format_type(call.inputs[0]));
  require_same_type(call, op, 0, 1);
  require_same_type(call, op, 0, 2);
  require(attr_number(call.attrs, "eps") >= 0, "{}: eps must not be negative", op);
  const DType dtype = parse_dtype(attr_text(call.attrs, "dtype"));
  require(dtype == sum_dtype(dtype), "{}: dtype must be f32 or f64", op);
  const TensorType type{call.inputs[0].shape, dtype};
  return {type, type, type};
}

FactorRule factors_moments(const OpCall&) {
  return {.dims = "c, c, c -> c, c, c"};
}

Cost cost_moments(const OpCall& call) {
  return streaming_cost(call, 8);
}

// ---- batch_norm
// ----------------------------------------------------------------------------------

TensorTypes infer(const OpCall& call) {
  const std::string_view op = "batch_norm";
  require_channels(call, op, 0);
  const DType dtype = call.inputs[0].dtype;
  require_vector(call, op, 1, sum_dtype(dtype), sum_dtype(dtype));
  require_vector(call, op, 2, sum_dtype(dtype), sum_dtype(dtype));
  require_vector(call, op, 3, DType::f64, DType::f64);
  require_vector(call, op, 4, dtype, sum_dtype(dtype));
  require_vector(call, op, 5, dtype, sum_dtype(dtype));
  return {call.inputs[0]};
}

FactorRule factors(const OpCall& call) {
  return {.dims = image(call) + ", c, c, c, c, c -> " + image(call)};
}

// A gradient in the dtype of what it is the gradient of.
ValueId as_parameter(const Backward& b, ValueId grad, ValueId parameter) {
  const DType dtype = b.build.type(parameter).dtype;
  if (b.build.type(grad).dtype == dtype) {
    return grad;
  }
  return b.build.emit("cast", {grad}, {{"dtype", std::string(dtype_name(dtype))}});
}

std::vector<ValueId> gradient(const Backward& b) {
  const ValueId dy = b.output_grads[0];
  const auto& in = b.inputs;
  std::vector<ValueId> grads(in.size(), -1);
  const std::vector<ValueId> sums =
      b.build.emit_all("batch_norm_grad_sums", {dy, in[0], in[1], in[2]});
  if (b.wanted[0]) {
    grads[0] = b.build.emit("batch_norm_input_grad",
                            {dy, in[0], in[1], in[2], in[4], sums[0], sums[1], in[3]});
  }
  grads[4] = b.wanted[4] ? as_parameter(b, sums[1], in[4]) : -1;
  grads[5] = b.wanted[5] ? as_parameter(b, sums[0], in[5]) : -1;
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 3);
}

// ---- batch_norm_grad_sums
// ------------------------------------------------------------------------

TensorTypes infer_grad_sums(const OpCall& call) {
  const std::string_view op = "batch_norm_grad_sums";
  require_channels(call, op, 0);
  require_same_type(call, op, 0, 1);
  const DType dtype = sum_dtype(call.inputs[0].dtype);
  require_vector(call, op, 2, dtype, dtype);
  require_vector(call, op, 3, dtype, dtype);
  const TensorType sums{{call.inputs[0].shape.back()}, dtype};
  return {sums, sums};
}

FactorRule factors_grad_sums(const OpCall& call) {
  return {.dims = image(call) + ", " + image(call) + ", c, c -> c, c", .linear = {{0}}};
}

Cost cost_grad_sums(const OpCall& call) {
  return streaming_cost(call, 5);
}

// ---- batch_norm_input_grad
// -----------------------------------------------------------------------

TensorTypes infer_input_grad(const OpCall& call) {
  const std::string_view op = "batch_norm_input_grad";
  require_channels(call, op, 0);
  require_same_type(call, op, 0, 1);
  const DType dtype = call.inputs[0].dtype;
  for (const int i : {2, 3, 5, 6}) {
    require_vector(call, op, i, sum_dtype(dtype), sum_dtype(dtype));
  }
  require_vector(call, op, 4, dtype, sum_dtype(dtype));
  require_vector(call, op, 7, DType::f64, DType::f64);
  return {call.inputs[1]};
}

FactorRule factors_input_grad(const OpCall& call) {
  return {.dims = image(call) + ", " + image(call) + ", c, c, c, c, c, c -> " + image(call)};
}

Cost cost_input_grad(const OpCall& call) {
  return streaming_cost(call, 5);
}

constexpr const char* kInside = "the gradient of batch_norm goes through the statistics by itself";

}  // namespace

std::int64_t batch_norm_chunks(std::int64_t rows) {
  return std::min<std::int64_t>(rows, 16);
}

OpDef batch_norm_sums() {
  return {.name = "batch_norm_sums",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_sums,
          .factors = factors_sums,
          .no_gradient = kInside,
          .cost = cost_sums,
          .workspace = chunk_bytes};
}

OpDef batch_norm_moments() {
  return {.name = "batch_norm_moments",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_moments,
          .factors = factors_moments,
          .no_gradient = kInside,
          .cost = cost_moments};
}

OpDef batch_norm() {
  return {.name = "batch_norm",
          .min_inputs = 6,
          .max_inputs = 6,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef batch_norm_grad_sums() {
  return {.name = "batch_norm_grad_sums",
          .min_inputs = 4,
          .max_inputs = 4,
          .infer = infer_grad_sums,
          .factors = factors_grad_sums,
          .no_gradient = "it is itself a gradient",
          .cost = cost_grad_sums,
          .workspace = chunk_bytes};
}

OpDef batch_norm_input_grad() {
  return {.name = "batch_norm_input_grad",
          .min_inputs = 8,
          .max_inputs = 8,
          .infer = infer_input_grad,
          .factors = factors_input_grad,
          .no_gradient = "it is itself a gradient",
          .cost = cost_input_grad};
}

}  // namespace weft::ops
