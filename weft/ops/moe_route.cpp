// moe_route(probs[…,e], bias[e]?) -> gates[…,k], expert[…,k], position[…,k], counts[e]
//
// Every token takes the k experts with the greatest score probs + bias, best first, the lower index
// first among equals; the bias (DeepSeek's balancing term) only chooses. With `groups` experts lie
// in as many groups of neighbours, and only those in the `top_groups` best groups may be chosen; a
// group's score is the sum of its `group_best` greatest ones.
//
//   gate_i = p_i,   or with `normalise`   p_i / S,  S = the sum of the k chosen p
//
// An expert has `capacity` slots for each entry of dim 0 (each sample), so C = capacity · samples
// in the micro-batch. Choices take slots in the order of (token, choice), a plain cumulative sum;
// one that finds its expert full is dropped: position -1. capacity = tokens of a sample drops
// nothing, as a token chooses an expert once at most.
//
// `position` counts in the dim of C slots a micro-batch of the whole step, as regions of kernels
// do. So whoever holds some of the slots finds them whatever else is split. `counts` are the tokens
// that chose an expert, dropped or not; no gradient flows through them.
//
// Who takes a slot depends on all tokens before, so nothing can be split: the probabilities, which
// are few, are gathered. The gradient is one of single tokens:
//
//   dp_i = dgate_i,   or   (dgate_i - sum_j dgate_j gate_j) / S,   zero where not chosen

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/moe.h"
#include "weft/ops/rules.h"

namespace weft::ops {

MoeRouting moe_routing(const OpCall& call) {
  const auto optional = [&call](std::string_view name, std::int64_t missing) {
    return has_attr(call.attrs, name) ? attr_int(call.attrs, name) : missing;
  };
  MoeRouting r;
  r.experts = call.inputs[0].shape.back().size;
  r.k = attr_int(call.attrs, "k");
  r.capacity = attr_int(call.attrs, "capacity");
  r.normalise = optional("normalise", 0) != 0;
  r.groups = optional("groups", 1);
  r.top_groups = optional("top_groups", r.groups);
  r.group_best = optional("group_best", 1);
  return r;
}

namespace {

constexpr std::string_view kRoute = "moe_route";
constexpr std::string_view kBackward = "moe_route_backward";

// The shape of what is chosen from probabilities.
Shape choices(const TensorType& probs, Dim k) {
  Shape shape(probs.shape.begin(), probs.shape.end() - 1);
  shape.push_back(k);
  return shape;
}

void require_probs(const OpCall& call, std::string_view op, int i) {
  require_floating(call, op, i);
  const TensorType& probs = call.inputs[static_cast<std::size_t>(i)];
  require(probs.rank() >= 2 && probs.rank() <= 4 && !probs.shape.back().batched,
          "{}: probabilities are {}, but must be [samples, …, experts] with two to four dims", op,
          format_type(probs));
}

void require_routing(const MoeRouting& r) {
  require(r.k >= 1 && r.k <= r.experts, "{}: k is {}, but there are {} experts to choose from",
          kRoute, r.k, r.experts);
  require(r.capacity >= 1, "{}: capacity is {}, but an expert needs a slot", kRoute, r.capacity);
  require(r.groups >= 1 && r.experts % r.groups == 0,
          "{}: {} experts cannot be put in {} groups alike", kRoute, r.experts, r.groups);
  const std::int64_t size = r.experts / r.groups;
  require(r.top_groups >= 1 && r.top_groups <= r.groups && r.top_groups * size >= r.k,
          "{}: {} of {} groups with {} experts each do not hold {} to choose", kRoute, r.top_groups,
          r.groups, size, r.k);
  require(r.group_best >= 1 && r.group_best <= size,
          "{}: group_best is {}, but a group has {} experts", kRoute, r.group_best, size);
}

TensorTypes infer(const OpCall& call) {
  require_probs(call, kRoute, 0);
  const TensorType& probs = call.inputs[0];
  const MoeRouting r = moe_routing(call);
  require_routing(r);
  const TensorType counts{{probs.shape.back()}, sum_dtype(probs.dtype)};
  if (call.inputs.size() > 1) {
    const TensorType bias{{probs.shape.back()}, probs.dtype};
    require(call.inputs[1] == bias, "{}: the bias is {}, but must be {}", kRoute,
            format_type(call.inputs[1]), format_type(bias));
  }
  const Shape chosen = choices(probs, r.k);
  return {{chosen, probs.dtype}, {chosen, DType::i64}, {chosen, DType::i64}, counts};
}

FactorRule factors(const OpCall& call) {
  const int n = call.inputs[0].rank() - 1;
  const std::string chosen = letters(n, "k");
  std::string whole = "ke";
  for (const char c : letters(n)) {
    whole += c == ' ' ? std::string() : std::string(1, c);
  }
  const std::string bias = call.inputs.size() > 1 ? ", e" : "";
  return {.dims = letters(n, "e") + bias + " -> " + chosen + ", " + chosen + ", " + chosen + ", e",
          .whole = whole};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(b.output_grads[3] < 0, "{}: counts of node {} must not be used by the loss", kRoute,
          b.node.name);
  require(b.inputs.size() < 2 || !b.wanted[1],
          "{}: the bias of node {} only chooses and has no gradient; pass one that is not trained",
          kRoute, b.node.name);
  std::vector<ValueId> grads(b.inputs.size(), -1);
  if (b.wanted[0] && b.output_grads[0] >= 0) {
    const std::int64_t normalise =
        has_attr(b.node.attrs, "normalise") ? attr_int(b.node.attrs, "normalise") : 0;
    grads[0] = b.build.emit(kBackward, {b.output_grads[0], b.inputs[0], b.outputs[1]},
                            {{"normalise", normalise}});
  }
  return grads;
}

// One pass over all experts for each choice.
Cost cost(const OpCall& call) {
  return streaming_cost(call, static_cast<double>(attr_int(call.attrs, "k")));
}

// ---- moe_route_backward
// --------------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  require_probs(call, kBackward, 1);
  const TensorType& grads = call.inputs[0];
  const TensorType& probs = call.inputs[1];
  require(grads.rank() == probs.rank(), "{}: gradients {} do not fit probabilities {}", kBackward,
          format_type(grads), format_type(probs));
  const Shape chosen = choices(probs, grads.shape.back());
  require(
      grads == TensorType{chosen, probs.dtype} && call.inputs[2] == TensorType{chosen, DType::i64},
      "{}: gradients {} and experts {} do not fit probabilities {}", kBackward, format_type(grads),
      format_type(call.inputs[2]), format_type(probs));
  return {probs};
}

FactorRule factors_backward(const OpCall& call) {
  const int n = call.inputs[1].rank() - 1;
  const std::string chosen = letters(n, "k");
  const std::string probs = letters(n, "e");
  return {.dims = chosen + ", " + probs + ", " + chosen + " -> " + probs,
          .whole = "ke",
          .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 4);
}

}  // namespace

OpDef moe_route() {
  return {.name = std::string(kRoute),
          .min_inputs = 1,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef moe_route_backward() {
  return {.name = std::string(kBackward),
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
