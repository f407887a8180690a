// Mixture-of-experts ops as products with one-hot matrices, and the tables of positions line by
// line as the models' public definitions have them.
#include "weft/kernels/torch_headers.h"

#include <cmath>

#include "tests/numerics/harness.h"
#include "tests/numerics/moe_cases.h"

namespace weft {
namespace {

// Scores outside of the best groups are -inf.
at::Tensor grouped(const OpCall& call, const at::Tensor& scores) {
  if (!has_attr(call.attrs, "groups")) {
    return scores;
  }
  const std::int64_t groups = attr_int(call.attrs, "groups");
  const std::int64_t size = scores.size(1) / groups;
  const at::Tensor of_groups =
      std::get<0>(scores.view({-1, groups, size}).topk(attr_int(call.attrs, "group_best"))).sum(-1);
  const at::Tensor best = std::get<1>(of_groups.topk(attr_int(call.attrs, "top_groups")));
  const at::Tensor mask = at::zeros_like(of_groups).scatter(1, best, 1.0);
  const at::Tensor open =
      mask.unsqueeze(-1).expand({scores.size(0), groups, size}).reshape(scores.sizes());
  return scores.masked_fill(open == 0, -INFINITY);
}

Tensors moe_route(const OpCall& call, const Tensors& in) {
  const std::int64_t experts = in[0].size(-1);
  const at::Tensor probs = in[0].reshape({-1, experts});
  const at::Tensor scores = in.size() > 1 ? probs + in[1] : probs;
  const at::Tensor expert = std::get<1>(grouped(call, scores).topk(attr_int(call.attrs, "k")));
  at::Tensor gates = probs.gather(1, expert);
  if (has_attr(call.attrs, "normalise") && attr_int(call.attrs, "normalise") == 1) {
    gates = gates / gates.sum(-1, true);
  }
  const at::Tensor taken = at::one_hot(expert.flatten(), experts);
  const at::Tensor place =
      (taken.cumsum(0) - 1).gather(1, expert.flatten().unsqueeze(1)).view_as(expert);
  const std::int64_t slots = attr_int(call.attrs, "capacity") * in[0].size(0);
  const auto shape = sizes(call.outputs[0]);
  return {gates.reshape(shape), expert.reshape(shape),
          place.masked_fill(place >= slots, -1).reshape(shape), taken.sum(0).to(at::kDouble)};
}

// [tokens, k, e · c]: one where a choice has its slot.
at::Tensor slots_taken(const at::Tensor& expert, const at::Tensor& position, std::int64_t experts,
                       std::int64_t slots) {
  const std::int64_t k = expert.size(-1);
  const at::Tensor kept = position >= 0;
  const at::Tensor slot = (expert * slots + position.clamp_min(0)).reshape({-1, k});
  return at::one_hot(slot, experts * slots).to(at::kDouble) *
         kept.reshape({-1, k, 1}).to(at::kDouble);
}

Tensors moe_dispatch(const OpCall& call, const Tensors& in) {
  const auto shape = sizes(call.outputs[0]);
  const at::Tensor taken = slots_taken(in[1], in[2], shape[0], shape[1]);
  const at::Tensor x = in[0].reshape({-1, shape[2]});
  return {at::matmul(taken.sum(1).t(), x).reshape(shape)};
}

Tensors moe_combine(const OpCall& call, const Tensors& in) {
  const at::Tensor& y = in[0];
  const at::Tensor taken = slots_taken(in[1], in[2], y.size(0), y.size(1));
  const at::Tensor mix = (taken * in[3].reshape({taken.size(0), taken.size(1), 1})).sum(1);
  return {at::matmul(mix, y.reshape({-1, y.size(2)})).reshape(sizes(call.outputs[0]))};
}

Tensors balance_loss(const OpCall& call, const Tensors& in) {
  const std::int64_t experts = in[1].numel();
  const double k = static_cast<double>(attr_int(call.attrs, "k"));
  const at::Tensor tokens = in[1].sum() / k;
  const at::Tensor chosen = in[1] / (tokens * k);
  const at::Tensor mean = in[0].reshape({-1, experts}).sum(0) / tokens;
  return {(chosen * mean).sum() * static_cast<double>(experts) * in[2] *
          attr_number(call.attrs, "weight")};
}

// T5's _relative_position_bucket.
Tensors relative_buckets(const OpCall& call, const Tensors&) {
  std::int64_t buckets = attr_int(call.attrs, "buckets");
  const at::Tensor query = at::arange(attr_int(call.attrs, "queries"), at::kLong).unsqueeze(1);
  const at::Tensor key = at::arange(attr_int(call.attrs, "keys"), at::kLong).unsqueeze(0);
  at::Tensor distance = key - query;
  at::Tensor result = at::zeros_like(distance);
  if (attr_int(call.attrs, "bidirectional") == 1) {
    buckets /= 2;
    result = result + (distance > 0).to(at::kLong) * buckets;
    distance = distance.abs();
  } else {
    distance = -at::minimum(distance, at::zeros_like(distance));
  }
  const std::int64_t exact = buckets / 2;
  const double range = std::log(static_cast<double>(attr_int(call.attrs, "max_distance")) /
                                static_cast<double>(exact));
  const at::Tensor steps = at::log(distance.to(at::kFloat) / exact) / range * (buckets - exact);
  const at::Tensor far = at::clamp_max(exact + steps.clamp_min(0).to(at::kLong), buckets - 1);
  return {result + at::where(distance < exact, distance, far)};
}

// Swin's relative_position_index.
Tensors window_index(const OpCall& call, const Tensors&) {
  const std::int64_t w = attr_int(call.attrs, "size");
  const at::Tensor row = at::arange(w, at::kLong).unsqueeze(1).expand({w, w}).flatten();
  const at::Tensor column = at::arange(w, at::kLong).unsqueeze(0).expand({w, w}).flatten();
  const at::Tensor down = row.unsqueeze(1) - row.unsqueeze(0) + w - 1;
  const at::Tensor across = column.unsqueeze(1) - column.unsqueeze(0) + w - 1;
  return {down * (2 * w - 1) + across};
}

// Swin's attention mask: pixels are numbered by region, the numbers cut into windows.
Tensors window_mask(const OpCall& call, const Tensors&) {
  const std::int64_t height = attr_int(call.attrs, "height");
  const std::int64_t width = attr_int(call.attrs, "width");
  const std::int64_t w = attr_int(call.attrs, "window");
  const std::int64_t shift = attr_int(call.attrs, "shift");
  at::Tensor image = at::zeros({height, width}, at::kDouble);
  double region = 0;
  const auto cuts = [&](std::int64_t length) {
    return std::vector<std::int64_t>{0, length - w, length - shift, length};
  };
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const auto rows = cuts(height);
      const auto columns = cuts(width);
      image.slice(0, rows[i], rows[i + 1]).slice(1, columns[j], columns[j + 1]).fill_(region++);
    }
  }
  const at::Tensor windows =
      image.view({height / w, w, width / w, w}).permute({0, 2, 1, 3}).reshape({-1, w * w});
  at::Tensor mask = windows.unsqueeze(1) - windows.unsqueeze(2);
  mask = mask.masked_fill(mask != 0, -100.0);
  return {call.outputs[0].rank() == 3 ? mask
                                      : mask.unsqueeze(1).expand(sizes(call.outputs[0])).clone()};
}

}  // namespace

void add_moe_references(std::map<std::string, Reference>& table) {
  table["balance_loss"] = balance_loss;
  table["moe_combine"] = moe_combine;
  table["moe_dispatch"] = moe_dispatch;
  table["moe_route"] = moe_route;
  table["relative_buckets"] = relative_buckets;
  table["window_index"] = window_index;
  table["window_mask"] = window_mask;
}

}  // namespace weft
