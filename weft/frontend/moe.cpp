// Router, dispatch, experts, combine:
//
//   p = softmax(x routerᵀ)                                    a probability for each expert
//   the `active` likeliest experts of a token take it, until their slots are full
//   y[e] = (act(x[e] gate[e]ᵀ) · (x[e] up[e]ᵀ)) down[e]ᵀ        over the slots of each expert,
//          or without a gate act(x[e] up[e]ᵀ) down[e]ᵀ
//   out = the sum over a token's experts of gate · y
//
// An expert has ceil(capacity · active · s / experts) slots for each sample of s tokens, so that
// the number of slots follows the micro-batch. Without a capacity it has s, and no token is
// dropped.
//
// The weights of all experts are one parameter [experts, …]; files hold a tensor for each expert.
#include "weft/frontend/moe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/frontend/family.h"

namespace weft {

namespace {

constexpr double kStdDev = 0.02;

std::int64_t slots_of_sample(const MoeOptions& o, std::int64_t tokens) {
  if (o.capacity <= 0) {
    return tokens;
  }
  const double fair =
      static_cast<double>(o.active * tokens) / static_cast<double>(o.experts) * o.capacity;
  return std::llround(std::clamp(std::ceil(fair), 1.0, static_cast<double>(tokens)));
}

/// Weights [experts, to, from] of which each expert is a stored tensor [to, from].
ValueId stack(Network& net, const std::string& name, const MoeOptions& o, const std::string& what,
              std::int64_t to, std::int64_t from) {
  const std::string parameter = name + ".experts." + what;
  for (std::int64_t e = 0; e < o.experts; ++e) {
    net.store({.parameter = net.path(parameter),
               .offset = {e, 0, 0},
               .size = {1, to, from},
               .tensor = fmt::format("{}{}{}.{}.weight", net.prefix(), o.expert_prefix, e, what),
               .tensor_shape = {to, from},
               .tensor_offset = {0, 0}});
  }
  return net.unstored(parameter, {o.experts, to, from},
                      {.kind = Init::Kind::normal, .std_dev = kStdDev});
}

ValueId product(Network& net, ValueId x, ValueId weights, const std::string& name) {
  return net.build().emit("matmul", {x, weights},
                          {{"transpose_a", std::int64_t{0}}, {"transpose_b", std::int64_t{1}}},
                          name);
}

/// The router is a small linear whose stored name need not be the node's.
ValueId probabilities(Network& net, ValueId x, const std::string& name, const MoeOptions& o) {
  const std::int64_t from = net.features(x);
  const std::string parameter = name + ".router.weight";
  net.store({.parameter = net.path(parameter),
             .offset = {0, 0},
             .size = {o.experts, from},
             .tensor = net.prefix() + o.router + ".weight",
             .tensor_shape = {o.experts, from},
             .tensor_offset = {0, 0}});
  const ValueId weight =
      net.unstored(parameter, {o.experts, from}, {.kind = Init::Kind::normal, .std_dev = kStdDev});
  const ValueId logits = net.linear_with(x, weight, -1, name + ".router", Parallel::none);
  return net.build().emit("softmax", {logits}, {}, name + ".probs");
}

/// Every expert's perceptron over its slots.
ValueId experts(Network& net, ValueId slots, const std::string& name, const MoeOptions& o) {
  const std::int64_t hidden = net.features(slots);
  const auto widened = [&](const std::string& what, const std::string& node) {
    const ValueId weights = stack(net, name, o, what, o.ffn, hidden);
    return product(net, slots, weights, name + ".experts." + node);
  };
  ValueId inner = -1;
  if (o.gated) {
    const ValueId gate = widened(o.gate, "gating");
    const ValueId up = widened(o.up, "widening");
    inner = net.build().emit("gated", {gate, up}, {{"function", o.act}}, name + ".experts.act");
  } else {
    inner = net.activation(widened(o.up, "widening"), o.act, name + ".experts.act");
  }
  const ValueId down = stack(net, name, o, o.down, hidden, o.ffn);
  return product(net, inner, down, name + ".experts.narrowing");
}

}  // namespace

void read_moe(Settings& settings, std::int64_t layers, std::int64_t ffn, MoeOptions& o) {
  constexpr std::int64_t kMostExperts = 1 << 12;  // of a layer
  constexpr std::int64_t kMostInAll = 1 << 15;    // each is three tensors of a file
  o.experts = settings.count("experts", kMostExperts);
  require(layers * o.experts <= kMostInAll,
          "{} layers of {} experts are more than {} experts in all; have fewer", layers, o.experts,
          kMostInAll);
  o.active = settings.size("active", o.experts > 0 ? o.experts : kMostExperts);
  settings.otherwise("expert_ffn", ffn);
  o.ffn = settings.size("expert_ffn", 8 * kMaxWidth);
  o.capacity = settings.positive("capacity");
  o.balance = settings.positive("balance");
}

MoeResult moe(Network& net, ValueId x, const std::string& name, const MoeOptions& o) {
  Builder& b = net.build();
  const std::int64_t tokens = net.shape(x).at(1).size;
  const std::int64_t capacity = slots_of_sample(o, tokens);
  const ValueId probs = probabilities(net, x, name, o);
  const std::vector<ValueId> route = b.emit_all(
      "moe_route", {probs},
      {{"k", o.active}, {"capacity", capacity}, {"normalise", std::int64_t{o.normalise ? 1 : 0}}},
      name + ".route");
  const ValueId slots =
      b.emit("moe_dispatch", {x, route[1], route[2]},
             {{"experts", o.experts}, {"capacity", capacity}, {"parallel", std::string("experts")}},
             name + ".dispatch");
  const ValueId y = experts(net, slots, name, o);
  MoeResult result;
  result.output = b.emit("moe_combine", {y, route[1], route[2], route[0]}, {}, name + ".combine");
  if (o.balance > 0) {
    result.balance = b.emit("balance_loss", {probs, route[3], net.sample_share()},
                            {{"weight", o.balance}, {"k", o.active}}, name + ".balance");
  }
  return result;
}

}  // namespace weft
