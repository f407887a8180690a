// Rows are summed in order and in f64, so the loss is the same for any number of threads.

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"

namespace weft::ops {
namespace {

template <typename W>
Tensors forward(const KernelCall& call) {
  const std::int64_t ignore = attr_int(call.call.attrs, "ignore");
  const W* const lse = data_of<W>(call.inputs[0]);
  const W* const score = data_of<W>(call.inputs[1]);
  const auto* const labels = data_of<std::int64_t>(call.inputs[2]);
  double sum = 0;
  for (std::int64_t i = 0; i < call.inputs[2].numel(); ++i) {
    sum += labels[i] == ignore ? 0.0 : static_cast<double>(lse[i]) - static_cast<double>(score[i]);
  }
  const at::Tensor loss = output_of(call, 0);
  *data_of<W>(loss) = static_cast<W>(sum * static_cast<double>(*data_of<W>(call.inputs[3])));
  return {loss};
}

template <typename W>
Tensors backward(const KernelCall& call) {
  const std::int64_t ignore = attr_int(call.call.attrs, "ignore");
  const W factor = *data_of<W>(call.inputs[0]) * *data_of<W>(call.inputs[2]);
  const auto* const labels = data_of<std::int64_t>(call.inputs[1]);
  Tensors grads = {output_of(call, 0), output_of(call, 1)};
  W* const dlse = data_of<W>(grads[0]);
  W* const dscore = data_of<W>(grads[1]);
  for (std::int64_t i = 0; i < call.inputs[1].numel(); ++i) {
    dlse[i] = labels[i] == ignore ? W{0} : factor;
    dscore[i] = -dlse[i];
  }
  return grads;
}

}  // namespace

Tensors nll_kernel(const KernelCall& call) {
  return for_floating(call, "nll", 0, [&](auto t) { return forward<Wide<decltype(t)>>(call); });
}

Tensors nll_backward_kernel(const KernelCall& call) {
  return for_floating(call, "nll_backward", 0,
                      [&](auto t) { return backward<Wide<decltype(t)>>(call); });
}

}  // namespace weft::ops
