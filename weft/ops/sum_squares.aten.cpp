#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <numeric>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

// Sums of chunks of a fixed length are added in order, so the result does not depend on the number
// of threads.
constexpr std::int64_t kChunk = 16384;

template <typename T>
double chunk_sum(const T* x, std::int64_t n) {
  return run_simd([=]() WEFT_INLINE {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(x[i]);
      sum += value * value;
    }
    return sum;
  });
}

template <typename T>
double tensor_sum(const at::Tensor& x) {
  const std::int64_t n = x.numel();
  const T* data = x.data_ptr<T>();
  std::vector<double> sums(static_cast<std::size_t>((n + kChunk - 1) / kChunk));
  at::parallel_for(
      0, static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) {
          const std::int64_t first = c * kChunk;
          sums[static_cast<std::size_t>(c)] = chunk_sum(data + first, std::min(kChunk, n - first));
        }
      });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

Tensors sum_squares_kernel(const KernelCall& call) {
  const std::vector<bool>& counted = call.env.counted;
  double total = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const at::Tensor& x = call.inputs[i];
    if (!counted.empty() && !counted.at(i)) {
      continue;
    }
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "sum_squares",
                                    [&] { total += tensor_sum<scalar_t>(x); });
  }
  const bool is_double = call.call.outputs[0].dtype == DType::f64;
  return {at::scalar_tensor(total, at::TensorOptions(is_double ? at::kDouble : at::kFloat))};
}

}  // namespace weft::ops
