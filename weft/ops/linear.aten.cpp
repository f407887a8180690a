// All rows of the leading dims are one matrix, so each of the three is one product straight into
// its output. On the CPU f32 goes to gemm.h, which is faster than at::linear, and bf16 to
// gemm_bf16.h; all else goes to ATen.

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"
#include "weft/ops/gemm_bf16.h"

namespace weft::ops {
namespace {

bool is_fast(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat;
}

bool is_bf16(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kBFloat16;
}

at::Tensor empty_output(const KernelCall& call) {
  return output_of(call, 0);
}

// Also of a tensor without features: a device may have none of those that are summed over.
std::int64_t rows_of(const at::Tensor& x) {
  std::int64_t rows = 1;
  for (std::int64_t d = 0; d + 1 < x.dim(); ++d) {
    rows *= x.size(d);
  }
  return rows;
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

// y[rows, n] = a[rows, k] b[k, n] + bias; the matrices' strides are those of whole tensors.
Tensors bf16_product(const KernelCall& call, Bf16Gemm product) {
  const at::Tensor y = empty_output(call);
  product.c = data_of<Bf16>(y);
  gemm(product);
  return {y};
}

}  // namespace

Tensors linear_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const at::Tensor& w = call.inputs[1];
  const bool has_bias = call.inputs.size() == 3;
  if (is_bf16(x)) {
    return bf16_product(call, {.m = as_matrix(x).size(0),
                               .n = w.size(0),
                               .k = w.size(1),
                               .a = {data_of<Bf16>(x), w.size(1)},
                               .b = {data_of<Bf16>(w), w.size(1), true},
                               .bias = has_bias ? data_of<Bf16>(call.inputs[2]) : nullptr});
  }
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
  if (is_bf16(dy)) {
    return bf16_product(call, {.m = as_matrix(dy).size(0),
                               .n = w.size(1),
                               .k = w.size(0),
                               .a = {data_of<Bf16>(dy), w.size(0)},
                               .b = {data_of<Bf16>(w), w.size(1)}});
  }
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
  if (is_bf16(dy)) {
    return bf16_product(call, {.m = dy.size(-1),
                               .n = x.size(-1),
                               .k = as_matrix(dy).size(0),
                               .a = {data_of<Bf16>(dy), dy.size(-1), true},
                               .b = {data_of<Bf16>(x), x.size(-1)}});
  }
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
