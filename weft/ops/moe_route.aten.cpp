// Tokens choose in parallel; then one thread hands out the slots, token by token.

#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <vector>

#include "weft/ops/coded.h"
#include "weft/ops/element.aten.h"
#include "weft/ops/moe.h"

namespace weft::ops {
namespace {

// The `count` greatest entries that are open, greatest first, the lower index first among equals;
// they are closed. `visit(index)` is called for each.
template <typename W, typename Visit>
void take_greatest(const W* scores, std::vector<char>& open, std::int64_t begin, std::int64_t end,
                   std::int64_t count, const Visit& visit) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t best = -1;
    for (std::int64_t e = begin; e < end; ++e) {
      const bool better = best < 0 || scores[e] > scores[best];
      best = open[static_cast<std::size_t>(e)] != 0 && better ? e : best;
    }
    WEFT_CHECK(best >= 0);
    open[static_cast<std::size_t>(best)] = 0;
    visit(best);
  }
}

// Chooses for one token after the other; holds what that needs.
template <typename W>
class Chooser {
 public:
  explicit Chooser(const MoeRouting& r)
      : r_(r),
        open_(static_cast<std::size_t>(r.experts)),
        group_scores_(static_cast<std::size_t>(r.groups)),
        open_groups_(static_cast<std::size_t>(r.groups)) {}

  void choose(const W* scores, std::int64_t* chosen) {
    std::fill(open_.begin(), open_.end(), char{1});
    if (r_.top_groups < r_.groups) {
      keep_best_groups(scores);
    }
    take_greatest(scores, open_, 0, r_.experts, r_.k, [&](std::int64_t e) { *chosen++ = e; });
  }

 private:
  void keep_best_groups(const W* scores) {
    const std::int64_t size = r_.experts / r_.groups;
    for (std::int64_t g = 0; g < r_.groups; ++g) {
      W sum = 0;
      take_greatest(scores, open_, g * size, (g + 1) * size, r_.group_best,
                    [&](std::int64_t e) { sum += scores[e]; });
      group_scores_[static_cast<std::size_t>(g)] = sum;
    }
    std::fill(open_.begin(), open_.end(), char{0});
    std::fill(open_groups_.begin(), open_groups_.end(), char{1});
    take_greatest(group_scores_.data(), open_groups_, 0, r_.groups, r_.top_groups,
                  [&](std::int64_t g) { std::fill_n(open_.begin() + g * size, size, char{1}); });
  }

  const MoeRouting& r_;
  std::vector<char> open_;
  std::vector<W> group_scores_;
  std::vector<char> open_groups_;
};

// The gates of one token: the probabilities it chose.
template <typename T>
void set_gates(const MoeRouting& r, const T* probs, const std::int64_t* chosen, T* gates) {
  Wide<T> sum = r.normalise ? 0 : 1;
  for (std::int64_t i = 0; r.normalise && i < r.k; ++i) {
    sum += static_cast<Wide<T>>(probs[chosen[i]]);
  }
  for (std::int64_t i = 0; i < r.k; ++i) {
    gates[i] = static_cast<T>(static_cast<Wide<T>>(probs[chosen[i]]) / sum);
  }
}

// Slots in the order of tokens and of their choices. They begin where the micro-batch does in the
// whole step.
std::vector<std::int64_t> hand_out(const MoeRouting& r, const at::Tensor& expert,
                                   std::int64_t first, std::int64_t samples,
                                   std::int64_t* position) {
  std::vector<std::int64_t> taken(static_cast<std::size_t>(r.experts), 0);
  const std::int64_t* const chosen = expert.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < expert.numel(); ++i) {
    const std::int64_t place = taken[static_cast<std::size_t>(chosen[i])]++;
    position[i] = place < r.capacity * samples ? r.capacity * first + place : -1;
  }
  return taken;
}

template <typename T>
Tensors route(const KernelCall& call) {
  using W = Wide<T>;
  const MoeRouting r = moe_routing(call.call);
  const at::Tensor& probs = call.inputs[0];
  std::vector<std::int64_t> sizes = probs.sizes().vec();
  sizes.back() = r.k;
  const auto ints = probs.options().dtype(at::kLong);
  Tensors out = {at::empty(sizes, probs.options()), at::empty(sizes, ints), at::empty(sizes, ints),
                 at::empty({r.experts}, probs.options().dtype(at::CppTypeToScalarType<W>::value))};
  const T* const p = probs.data_ptr<T>();
  const T* const bias = call.inputs.size() > 1 ? call.inputs[1].data_ptr<T>() : nullptr;
  T* const gates = out[0].data_ptr<T>();
  std::int64_t* const expert = out[1].data_ptr<std::int64_t>();
  const auto choose = [&](std::int64_t begin, std::int64_t end) {
    Chooser<W> chooser(r);
    std::vector<W> scores(static_cast<std::size_t>(r.experts));
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t e = 0; e < r.experts; ++e) {
        const W shift = bias == nullptr ? W{0} : static_cast<W>(bias[e]);
        scores[static_cast<std::size_t>(e)] = static_cast<W>(p[t * r.experts + e]) + shift;
      }
      chooser.choose(scores.data(), expert + t * r.k);
      set_gates(r, p + t * r.experts, expert + t * r.k, gates + t * r.k);
    }
  };
  at::parallel_for(0, probs.numel() / r.experts, 64, choose);
  const std::int64_t first = call.env.inputs.empty() ? 0 : call.env.inputs[0][0].begin;
  const std::vector<std::int64_t> taken =
      hand_out(r, out[1], first, probs.size(0), out[2].data_ptr<std::int64_t>());
  std::transform(taken.begin(), taken.end(), out[3].data_ptr<W>(),
                 [](std::int64_t n) { return static_cast<W>(n); });
  return out;
}

template <typename T>
Tensors route_backward(const KernelCall& call) {
  using W = Wide<T>;
  const bool normalise = attr_int(call.call.attrs, "normalise") != 0;
  const at::Tensor grad = at::zeros_like(call.inputs[1]);
  const std::int64_t experts = grad.size(-1);
  const std::int64_t k = call.inputs[0].size(-1);
  const T* const dgates = call.inputs[0].data_ptr<T>();
  const T* const probs = call.inputs[1].data_ptr<T>();
  const std::int64_t* const expert = call.inputs[2].data_ptr<std::int64_t>();
  T* const out = grad.data_ptr<T>();
  at::parallel_for(0, grad.numel() / experts, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      W sum = 0;
      W dot = 0;  // sum of dgate · p
      for (std::int64_t i = 0; i < k; ++i) {
        const W p = static_cast<W>(probs[t * experts + expert[t * k + i]]);
        sum += p;
        dot += p * static_cast<W>(dgates[t * k + i]);
      }
      for (std::int64_t i = 0; i < k; ++i) {
        const W dgate = static_cast<W>(dgates[t * k + i]);
        const W dp = normalise ? (dgate - dot / sum) / sum : dgate;
        out[t * experts + expert[t * k + i]] = static_cast<T>(dp);
      }
    }
  });
  return {grad};
}

}  // namespace

Tensors moe_route_kernel(const KernelCall& call) {
  return with_element(call, "moe_route", 0, [&](auto type) { return route<decltype(type)>(call); });
}

Tensors moe_route_backward_kernel(const KernelCall& call) {
  return with_element(call, "moe_route_backward", 1,
                      [&](auto type) { return route_backward<decltype(type)>(call); });
}

}  // namespace weft::ops
