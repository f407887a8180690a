// attention(q[b,s,(g r),d], k[b,t,g,d], v[b,t,g,e], bias[n,(g r),s,t]?)
//   -> out[b,s,(g r),e], lse[b,(g r),s]
//
// The r query heads of a group share its keys and values. For each sample and query head:
//
//   S = scale q kᵀ + bias,   lse_i = log sum_j exp(S_ij),   P_ij = exp(S_ij - lse_i),   out = P v
//
// Sample i of the whole step takes bias[i mod n]. `causal`: query i sees keys 0 … i only. `window`
// w > 0: it sees keys j with |i - j| < w only. Both need s = t. `dropout`: entries of P are set to
// zero with that probability, the others scaled by 1/(1 - p), after the normalisation.
//
// Only lse is kept for the gradient, which computes P again, tile by tile. With D_i = sum_c dout_ic
// out_ic, which is sum_j P_ij dP_ij with and without dropout, and m the dropout factor of an entry:
//
//   dv = (P m)ᵀ dout,   dP = (dout vᵀ) m,   dS = P (dP - D),   dq = scale dS k,   dk = scale dSᵀ q,
//   dbias = sum of dS over the samples that took it
//
// In the factor rules the groups have the letter h: without sharing they are the heads. If there is
// but one group, r is the major factor of the heads and can be split; dk and dv are then partial
// sums, as dbias is when b is split. Queries (s) can be split too: each device sees all keys, and
// its dk and dv are partial sums. In a ring, queries and keys are split alike: a run of the kernel
// takes the keys of one device, and
//
//   out = sum over runs of exp(lse_run - lse) out_run,   lse = log sum over runs of exp(lse_run),
//
// which is brought up to date by each run. The gradient needs nothing but the final out and lse for
// its sums over runs.

#include "weft/ops/attention.h"

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

std::int64_t window_of(const OpCall& call) {
  return has_attr(call.attrs, "window") ? attr_int(call.attrs, "window") : 0;
}

void require_heads(const OpCall& call, std::string_view op, std::size_t first) {
  const TensorType& q = call.inputs[first];
  const TensorType& k = call.inputs[first + 1];
  const TensorType& v = call.inputs[first + 2];
  require_floating(call, op, static_cast<int>(first));
  const bool fits = q.rank() == 4 && k.rank() == 4 && q.shape[0] == k.shape[0] &&
                    q.shape[3] == k.shape[3] && q.dtype == k.dtype && k.shape[2].size > 0 &&
                    q.shape[2].size % k.shape[2].size == 0;
  require(fits,
          "{}: queries {} and keys {} do not fit; they must be [b,s,h,d] and [b,t,g,d], where g "
          "divides h",
          op, format_type(q), format_type(k));
  const bool valued = v.rank() == 4 && v.dtype == k.dtype &&
                      std::equal(v.shape.begin(), v.shape.end() - 1, k.shape.begin());
  require(valued, "{}: values {} do not fit keys {}; they must be [b,t,g,e]", op, format_type(v),
          format_type(k));
}

void require_attrs(const OpCall& call, std::string_view op, std::size_t first) {
  const TensorType& q = call.inputs[first];
  const TensorType& k = call.inputs[first + 1];
  const std::int64_t window = window_of(call);
  require(window >= 0, "{}: window is {}, but must be 0 (none) or positive", op, window);
  require((attr_int(call.attrs, "causal") == 0 && window == 0) || q.shape[1] == k.shape[1],
          "{}: causal attention and windows need as many keys as queries, not {} and {}", op,
          format_type(k), format_type(q));
  const double p = attr_number(call.attrs, "dropout");
  require(p >= 0 && p < 1, "{}: dropout is {}, but must be in [0, 1)", op, p);
}

// Inputs from `first`: q, k, v; input `bias`, if there are so many: the bias.
void require_operands(const OpCall& call, std::string_view op, std::size_t first,
                      std::size_t bias) {
  require_heads(call, op, first);
  require_attrs(call, op, first);
  if (call.inputs.size() <= bias) {
    return;
  }
  const TensorType& q = call.inputs[first];
  const TensorType& got = call.inputs[bias];
  const bool fits = got.rank() == 4 && got.dtype == q.dtype && !got.shape[0].batched &&
                    got.shape[0].size > 0 && got.shape[1] == q.shape[2] &&
                    got.shape[2] == q.shape[1] && got.shape[3] == call.inputs[first + 1].shape[1];
  require(fits, "{}: bias {} does not fit queries {} and keys {}; it must be [n,h,s,t]", op,
          format_type(got), format_type(q), format_type(call.inputs[first + 1]));
}

TensorType out_type(const TensorType& q, const TensorType& v) {
  return {{q.shape[0], q.shape[1], q.shape[2], v.shape[3]}, q.dtype};
}

TensorType lse_type(const TensorType& q) {
  return {{q.shape[0], q.shape[2], q.shape[1]}, sum_dtype(q.dtype)};
}

TensorTypes infer(const OpCall& call) {
  require_operands(call, "attention", 0, 3);
  return {out_type(call.inputs[0], call.inputs[2]), lse_type(call.inputs[0])};
}

FactorRule factors(const OpCall& call) {
  const bool biased = call.inputs.size() > 3;
  return {.dims = std::string("b s (h r) d, b t h d, b t h e") + (biased ? ", n (h r) s t" : "") +
                  " -> b s (h r) e, b (h r) s",
          .whole = biased ? "tden" : "tde",
          .ring = biased ? "" : "st"};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(b.output_grads[1] < 0, "attention: lse of node {} must not be used by the loss",
          b.node.name);
  std::vector<ValueId> inputs = {b.output_grads[0], b.inputs[0],  b.inputs[1],
                                 b.inputs[2],       b.outputs[0], b.outputs[1]};
  Attrs attrs = b.node.attrs;
  if (b.inputs.size() > 3) {
    inputs.push_back(b.inputs[3]);
    attrs["bias_gradient"] = std::int64_t{b.wanted[3] ? 1 : 0};
  }
  std::vector<ValueId> grads = b.build.emit_all("attention_backward", inputs, attrs);
  grads.resize(b.inputs.size(), -1);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    grads[i] = b.wanted[i] ? grads[i] : -1;
  }
  return grads;
}

// The share of the scores that are seen; behind the first run of a ring, by the device that sees
// most.
double seen_share(const AttentionSizes& a) {
  if (a.continues) {
    return 1;
  }
  const double t = static_cast<double>(std::max<std::int64_t>(a.t, 1));
  const double w = a.window == 0 ? t : std::min(t, static_cast<double>(a.window));
  const double one_side = w / t * (1 - w / (2 * t));  // 1/2 without a window
  return a.causal ? one_side : a.window == 0 ? 1.0 : std::min(1.0, 2 * one_side);
}

// `key_products` of s × t × d and `value_products` of s × t × e for each sample and head.
Cost product_cost(const OpCall& call, const AttentionSizes& a, double key_products,
                  double value_products) {
  const double all = static_cast<double>(a.b) * static_cast<double>(a.h) *
                     static_cast<double>(a.s) * static_cast<double>(a.t);
  const double widths =
      key_products * static_cast<double>(a.d) + value_products * static_cast<double>(a.e);
  Cost cost = streaming_cost(call, 0);
  cost.flops = all * seen_share(a) * (2.0 * widths + 8.0);
  cost.scores = all * value_products;  // those that are masked too
  return cost;
}

Cost cost(const OpCall& call) {
  return product_cost(call, attention_sizes(call, 0, 3), 1, 1);
}

std::int64_t sum_bytes(const OpCall& call) {
  return element_bytes(sum_dtype(call.inputs[0].dtype));
}

std::int64_t workspace(const OpCall& call) {
  const AttentionSizes a = attention_sizes(call, 0, 3);
  return attention_tiles(a.forward_tasks()) * a.forward_scratch() * sum_bytes(call);
}

// ---- attention_backward
// --------------------------------------------------------------------------

bool has_bias_gradient(const OpCall& call) {
  return call.inputs.size() > 6 && attr_int(call.attrs, "bias_gradient") != 0;
}

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "attention_backward";
  require_operands(call, op, 1, 6);
  const TensorType out = out_type(call.inputs[1], call.inputs[3]);
  for (const std::size_t i : {std::size_t{0}, std::size_t{4}}) {
    require(call.inputs[i] == out, "{}: input {} is {}, but must be {}", op, i,
            format_type(call.inputs[i]), format_type(out));
  }
  require(call.inputs[5] == lse_type(call.inputs[1]), "{}: lse {} does not fit queries {}", op,
          format_type(call.inputs[5]), format_type(call.inputs[1]));
  TensorTypes outputs = {call.inputs[1], call.inputs[2], call.inputs[3]};
  if (has_bias_gradient(call)) {
    outputs.push_back(call.inputs[6]);
  }
  return outputs;
}

FactorRule factors_backward(const OpCall& call) {
  const bool biased = call.inputs.size() > 6;
  return {
      .dims = std::string("b s (h r) e, b s (h r) d, b t h d, b t h e, b s (h r) e, b (h r) s") +
              (biased ? ", n (h r) s t" : "") + " -> b s (h r) d, b t h d, b t h e" +
              (has_bias_gradient(call) ? ", n (h r) s t" : ""),
      .whole = biased ? "tden" : "tde",
      .ring = biased ? "" : "st"};
}

Cost cost_backward(const OpCall& call) {
  return product_cost(call, attention_sizes(call, 1, 6), 3, 2);
}

// In bf16 the gradient of the bias is summed in f32 first.
std::int64_t workspace_backward(const OpCall& call) {
  const AttentionSizes a = attention_sizes(call, 1, 6);
  const std::int64_t wide_bias = a.bias_gradient && a.narrow ? a.n * a.h * a.s * a.t : 0;
  return (attention_tiles(a.backward_tasks()) * a.backward_scratch() + wide_bias) * sum_bytes(call);
}

}  // namespace

Range AttentionSizes::keys(std::int64_t row) const {
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  const std::int64_t query = first_query + row - first_key;
  const std::int64_t reach = window == 0 ? kFar : window;
  return {std::clamp<std::int64_t>(query - reach + 1, 0, t),
          std::clamp<std::int64_t>(causal ? query + 1 : query + reach, 0, t)};
}

std::int64_t AttentionSizes::forward_scratch() const {
  const std::int64_t rows = std::min(s, kAttentionRows);
  const std::int64_t width = std::min(t, kAttentionKeys);
  return rows * width + (narrow ? (rows + width) * (d + e) : 0);
}

// A tile of P and one of dS; in bf16 blocks of q, dout, k, v and dq, and all of dk and dv.
std::int64_t AttentionSizes::backward_scratch() const {
  const std::int64_t rows = std::min(s, kAttentionRows);
  const std::int64_t width = std::min(t, kAttentionKeys);
  return 2 * rows * width + (narrow ? (rows + width + t) * (d + e) + rows * d : 0);
}

AttentionSizes attention_sizes(const OpCall& call, std::size_t q, std::size_t bias) {
  const TensorType& queries = call.inputs[q];
  const TensorType& keys = call.inputs[q + 1];
  return {.b = queries.size(0),
          .s = queries.size(1),
          .t = keys.size(1),
          .h = queries.size(2),
          .g = keys.size(2),
          .d = queries.size(3),
          .e = call.inputs[q + 2].size(3),
          .n = call.inputs.size() > bias ? call.inputs[bias].size(0) : 0,
          .causal = attr_int(call.attrs, "causal") != 0,
          .window = window_of(call),
          .scale = attr_number(call.attrs, "scale"),
          .dropout = attr_number(call.attrs, "dropout"),
          .bias_gradient = has_bias_gradient(call),
          .narrow = sum_dtype(queries.dtype) != queries.dtype,
          .ring = call.ring_step >= 0,
          .continues = call.ring_step > 0,
          .all_keys = keys.size(1)};
}

OpDef attention() {
  return {.name = "attention",
          .min_inputs = 3,
          .max_inputs = 4,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace};
}

OpDef attention_backward() {
  return {.name = "attention_backward",
          .min_inputs = 6,
          .max_inputs = 7,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .workspace = workspace_backward};
}

}  // namespace weft::ops
