// All rows of the leading dims are one matrix, so each of the three is one product straight into
// its output. f32 on the CPU goes to gemm.h, which is faster than at::linear; all else goes to
// ATen.

#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/gemm.h"

namespace weft::ops {
namespace {

bool is_fast(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat;
}

at::Tensor empty_output(const KernelCall& call) {
  return output_of(call, 0);
}

std::int64_t rows_of(const at::Tensor& x) {
  return x.numel() / std::max<std::int64_t>(x.size(-1), 1);
}

// [rows, last dim]
at::Tensor as_matrix(const at::Tensor& x) {
  return x.view({rows_of(x), x.size(-1)});
}

// Every row of y becomes the bias, to which the product is then added.
void fill_rows(const at::Tensor& y, const at::Tensor& bias) {
  const std::int64_t n = bias.numel();
  const std::int64_t rows = n == 0 ? 0 : y.numel() / n;
  const float* const from = bias.data_ptr<float>();
  float* const to = y.data_ptr<float>();
  at::parallel_for(0, rows, 1 + 16384 / (n + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy(from, from + n, to + i * n);
    }
  });
}

}  // namespace

Tensors linear_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const at::Tensor& w = call.inputs[1];
  const bool has_bias = call.inputs.size() == 3;
  if (!is_fast(x)) {
    const at::Tensor y =
        has_bias ? at::addmm(call.inputs[2], as_matrix(x), w.t()) : at::mm(as_matrix(x), w.t());
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes.back() = w.size(0);
    return {y.view(sizes)};
  }
  const at::Tensor y = empty_output(call);
  if (has_bias) {
    fill_rows(y, call.inputs[2]);
  }
  const std::int64_t k = w.size(1);
  const std::int64_t n = w.size(0);
  gemm(Gemm<float>{.m = rows_of(x),
                   .n = n,
                   .k = k,
                   .a = {x.data_ptr<float>(), k},
                   .b = {w.data_ptr<float>(), k, true},
                   .c = y.data_ptr<float>(),
                   .c_stride = n,
                   .beta = has_bias ? 1.0F : 0.0F});
  return {y};
}

Tensors linear_input_grad_kernel(const KernelCall& call) {
  const at::Tensor& dy = call.inputs[0];
  const at::Tensor& w = call.inputs[1];
  if (!is_fast(dy)) {
    std::vector<std::int64_t> sizes = dy.sizes().vec();
    sizes.back() = w.size(1);
    return {at::mm(as_matrix(dy), w).view(sizes)};
  }
  const at::Tensor dx = empty_output(call);
  const std::int64_t n = w.size(0);
  const std::int64_t k = w.size(1);
  gemm(Gemm<float>{.m = rows_of(dy),
                   .n = k,
                   .k = n,
                   .a = {dy.data_ptr<float>(), n},
                   .b = {w.data_ptr<float>(), k},
                   .c = dx.data_ptr<float>(),
                   .c_stride = k});
  return {dx};
}

Tensors linear_weight_grad_kernel(const KernelCall& call) {
  const at::Tensor& dy = call.inputs[0];
  const at::Tensor& x = call.inputs[1];
  if (!is_fast(dy)) {
    return {at::mm(as_matrix(dy).t(), as_matrix(x))};
  }
  const at::Tensor dw = empty_output(call);
  const std::int64_t n = dy.size(-1);
  const std::int64_t k = x.size(-1);
  gemm(Gemm<float>{.m = n,
                   .n = k,
                   .k = rows_of(dy),
                   .a = {dy.data_ptr<float>(), n, true},
                   .b = {x.data_ptr<float>(), k},
                   .c = dw.data_ptr<float>(),
                   .c_stride = k});
  return {dw};
}

}  // namespace weft::ops
