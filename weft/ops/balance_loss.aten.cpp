// Sums of blocks of tokens in f64, added in order: the same for any number of threads.

#include "weft/kernels/torch_headers.h"

#include <numeric>
#include <vector>

#include "weft/ops/coded.h"
#include "weft/ops/element.aten.h"

namespace weft::ops {
namespace {

// weight · share · E · k / n², what a count is multiplied with; `counts` is input i. Without any
// tokens there is no loss.
template <typename Sum>
double factor(const KernelCall& call, std::size_t i) {
  const at::Tensor& counts = call.inputs[i];
  const Sum* const data = counts.data_ptr<Sum>();
  const double n = std::accumulate(data, data + counts.numel(), 0.0);
  const double share = static_cast<double>(*call.inputs[i + 1].data_ptr<Sum>());
  const double scale = attr_number(call.call.attrs, "weight") * share *
                       static_cast<double>(counts.numel()) * attr_number(call.call.attrs, "k");
  return n > 0 ? scale / (n * n) : 0.0;
}

template <typename T>
Tensors forward(const KernelCall& call) {
  using Sum = Wide<T>;
  constexpr std::int64_t kBlock = 256;
  const std::int64_t experts = call.inputs[1].numel();
  const std::int64_t tokens = call.inputs[0].numel() / experts;
  const T* const probs = call.inputs[0].data_ptr<T>();
  const Sum* const counts = call.inputs[1].data_ptr<Sum>();
  std::vector<double> sums(static_cast<std::size_t>((tokens + kBlock - 1) / kBlock));
  const auto add_blocks = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      double sum = 0;
      for (std::int64_t t = block * kBlock; t < std::min(tokens, (block + 1) * kBlock); ++t) {
        for (std::int64_t e = 0; e < experts; ++e) {
          sum += static_cast<double>(counts[e]) * static_cast<double>(probs[t * experts + e]);
        }
      }
      sums[static_cast<std::size_t>(block)] = sum;
    }
  };
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), 1, add_blocks);
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  const at::Tensor loss = at::empty({}, call.inputs[1].options());
  *loss.data_ptr<Sum>() = static_cast<Sum>(factor<Sum>(call, 1) * sum);
  return {loss};
}

// The same row for every token.
template <typename T>
Tensors backward(const KernelCall& call) {
  using Sum = Wide<T>;
  const std::int64_t experts = call.inputs[2].numel();
  const at::Tensor grad = at::empty_like(call.inputs[1]);
  const Sum* const counts = call.inputs[2].data_ptr<Sum>();
  T* const out = grad.data_ptr<T>();
  const double scale = factor<Sum>(call, 2) * static_cast<double>(*call.inputs[0].data_ptr<Sum>());
  at::parallel_for(0, grad.numel() / experts, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t e = 0; e < experts; ++e) {
        const double value = scale * static_cast<double>(counts[e]);
        out[t * experts + e] = static_cast<T>(static_cast<Sum>(value));
      }
    }
  });
  return {grad};
}

}  // namespace

Tensors balance_loss_kernel(const KernelCall& call) {
  return with_element(call, "balance_loss", 0,
                      [&](auto type) { return forward<decltype(type)>(call); });
}

Tensors balance_loss_backward_kernel(const KernelCall& call) {
  return with_element(call, "balance_loss_backward", 1,
                      [&](auto type) { return backward<decltype(type)>(call); });
}

}  // namespace weft::ops
