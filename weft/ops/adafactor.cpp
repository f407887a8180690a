// Adafactor (Shazeer and Stern, 2018) with a given learning rate and without momentum: what
// transformers' Adafactor does with scale_parameter=False and relative_step=False. With g scaled by
// clip, t = step counted from 1 and beta = 1 - t^-decay, a tensor w[..., i, j] keeps, instead of
// the second moment of every element, its means over rows and over columns:
//
//   r' = beta r + (1 - beta) mean_j(g^2 + epsilon)      c' = beta c + (1 - beta) mean_i(g^2 +
//   epsilon) u  = g / sqrt(r'_i c'_j / mean_i(r'))               the second moment, taken as an
//   outer product w' = (1 - lr weight_decay) w - lr u / max(1, rms(u) / threshold)
//
// A vector keeps v' = beta v + (1 - beta) (g^2 + epsilon) of every element, and u = g / sqrt(v').
//
// Means over a dim that may be split are ops of their own: they give partial sums (each device
// knows the whole length by the attribute `scale`), which lowering adds up before the next op uses
// them.
//
//   adafactor_moment(g, clip[]?) -> scale sum(g^2 + epsilon) over dim `over` (-1, -2; 0: no sum)
//   adafactor_average(old, new, step[]) -> beta old + (1 - beta) new, in place of old
//   adafactor_row_mean(r) -> scale sum(r) over the last dim
//   adafactor_norm(g, second..., clip[]?) -> scale sum(u^2)
//   adafactor(w, g, second..., norm[], lr[], clip[]?) -> w' in place
//
// where `second` is r, c, mean(r), or v alone with factored = 0. Kernels: adafactor.aten.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

bool is_factored(const OpCall& call) {
  return attr_int(call.attrs, "factored") == 1;
}

/// Shape without the dim `over`, counted from the end.
Shape without(const Shape& shape, std::int64_t over) {
  Shape result = shape;
  if (over != 0) {
    result.erase(result.end() + over);
  }
  return result;
}

/// "b s r" without the letter of dim `over`: "b s" for -1.
std::string letters_without(int rank, std::int64_t over) {
  std::string all = letters(rank);
  if (over == 0) {
    return all;
  }
  // Letters stand at even places, spaces between them.
  const std::size_t at = 2 * static_cast<std::size_t>(rank + over);
  all.erase(at, 1);
  return all;
}

void require_scalars(const OpCall& call, std::string_view op, std::size_t first) {
  for (std::size_t i = first; i < call.inputs.size(); ++i) {
    require_scalar(call, op, static_cast<int>(i), sum_dtype(call.inputs[0].dtype));
  }
}

/// Checks the second moments of `g`, which stand at `first`.
void require_second(const OpCall& call, std::string_view op, const TensorType& g,
                    std::size_t first) {
  const auto expect = [&](std::size_t i, const Shape& shape) {
    const TensorType& type = call.inputs.at(first + i);
    require(type.shape == shape && type.dtype == g.dtype,
            "{}: input {} is {}, but the gradient is {}", op, first + i, format_type(type),
            format_type(g));
  };
  if (!is_factored(call)) {
    expect(0, g.shape);
    return;
  }
  require(g.rank() >= 2, "{}: the gradient is {}; only a matrix has rows and columns", op,
          format_type(g));
  expect(0, without(g.shape, -1));
  expect(1, without(g.shape, -2));
  expect(2, without(without(g.shape, -1), -1));
}

std::size_t second_count(const OpCall& call) {
  return is_factored(call) ? 3 : 1;
}

/// "b s, b, s, " for a matrix: rows, columns and the mean of the rows.
std::string second_dims(const OpCall& call, int rank) {
  if (!is_factored(call)) {
    return letters(rank);
  }
  return letters_without(rank, -1) + ", " + letters_without(rank, -2) + ", " +
         letters_without(rank - 1, -1);
}

// ---- adafactor_moment

TensorTypes infer_moment(const OpCall& call) {
  require_master(call, "adafactor_moment");
  require_scalars(call, "adafactor_moment", 1);
  const TensorType& g = call.inputs[0];
  const std::int64_t over = attr_int(call.attrs, "over");
  require(over <= 0 && over >= -2 && g.rank() + over >= 0,
          "adafactor_moment: there is no dim {} of {} to sum over", over, format_type(g));
  return {{without(g.shape, over), g.dtype}};
}

FactorRule factors_moment(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  return {.dims = letters(rank) + (call.inputs.size() > 1 ? ", " : "") + " -> " +
                  letters_without(rank, attr_int(call.attrs, "over"))};
}

Cost cost_moment(const OpCall& call) {
  return streaming_cost(call, 3);
}

// ---- adafactor_average

TensorTypes infer_average(const OpCall& call) {
  require_master(call, "adafactor_average");
  require_same_type(call, "adafactor_average", 0, 1);
  require_scalars(call, "adafactor_average", 2);
  const double decay = attr_number(call.attrs, "decay");
  require(decay >= 0, "adafactor_average: decay = {}, but must not be negative", decay);
  return {call.inputs[0]};
}

FactorRule factors_average(const OpCall& call) {
  return {.dims = elementwise_dims(call)};
}

Cost cost_average(const OpCall& call) {
  return streaming_cost(call, 3);
}

// ---- adafactor_row_mean

TensorTypes infer_row_mean(const OpCall& call) {
  require_master(call, "adafactor_row_mean");
  const TensorType& r = call.inputs[0];
  require(r.rank() >= 1, "adafactor_row_mean: a scalar has no rows");
  return {{without(r.shape, -1), r.dtype}};
}

FactorRule factors_row_mean(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  return {.dims = letters(rank) + " -> " + letters_without(rank, -1), .linear = {{0}}};
}

Cost cost_row_mean(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ---- adafactor_norm

TensorTypes infer_norm(const OpCall& call) {
  require_master(call, "adafactor_norm");
  require_second(call, "adafactor_norm", call.inputs[0], 1);
  require_scalars(call, "adafactor_norm", 1 + second_count(call));
  return {{{}, call.inputs[0].dtype}};
}

FactorRule factors_norm(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  const bool clipped = call.inputs.size() > 1 + second_count(call);
  return {.dims = letters(rank) + ", " + second_dims(call, rank) + (clipped ? ", " : "") + " -> "};
}

Cost cost_norm(const OpCall& call) {
  return streaming_cost(call, 6);
}

// ---- adafactor

TensorTypes infer_update(const OpCall& call) {
  require_master(call, "adafactor");
  require_same_type(call, "adafactor", 0, 1);
  require_second(call, "adafactor", call.inputs[0], 2);
  require_scalars(call, "adafactor", 2 + second_count(call));
  const double threshold = attr_number(call.attrs, "threshold");
  require(threshold > 0, "adafactor: threshold = {}, but must be positive", threshold);
  return {call.inputs[0]};
}

FactorRule factors_update(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  std::string dims = letters(rank) + ", " + letters(rank) + ", " + second_dims(call, rank);
  for (std::size_t i = 2 + second_count(call); i < call.inputs.size(); ++i) {
    dims += ", ";
  }
  return {.dims = dims + " -> " + letters(rank)};
}

Cost cost_update(const OpCall& call) {
  return streaming_cost(call, 8);
}

constexpr const char* kIsUpdate = "it is a part of the update";

}  // namespace

OpDef adafactor_moment() {
  return {.name = "adafactor_moment",
          .min_inputs = 1,
          .max_inputs = 2,
          .infer = infer_moment,
          .factors = factors_moment,
          .no_gradient = kIsUpdate,
          .cost = cost_moment};
}

OpDef adafactor_average() {
  return {.name = "adafactor_average",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_average,
          .factors = factors_average,
          .no_gradient = kIsUpdate,
          .cost = cost_average,
          .aliases = {{.output = 0, .input = 0, .in_place = true}}};
}

OpDef adafactor_row_mean() {
  return {.name = "adafactor_row_mean",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_row_mean,
          .factors = factors_row_mean,
          .no_gradient = kIsUpdate,
          .cost = cost_row_mean};
}

OpDef adafactor_norm() {
  return {.name = "adafactor_norm",
          .min_inputs = 2,
          .max_inputs = 5,
          .infer = infer_norm,
          .factors = factors_norm,
          .no_gradient = kIsUpdate,
          .cost = cost_norm};
}

OpDef adafactor() {
  return {.name = "adafactor",
          .min_inputs = 5,
          .max_inputs = 8,
          .infer = infer_update,
          .factors = factors_update,
          .no_gradient = kIsUpdate,
          .cost = cost_update,
          .aliases = {{.output = 0, .input = 0, .in_place = true}}};
}

}  // namespace weft::ops
