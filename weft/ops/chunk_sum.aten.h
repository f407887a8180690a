#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "weft/kernels/torch_headers.h"
#include "weft/ops/simd.h"

namespace weft::ops {

/// The sum of term(x) over all elements, in f64. Sums of chunks of a fixed length are added in
/// order, so the result does not depend on the number of threads; no tensor memory is taken. `term`
/// is marked WEFT_INLINE.
template <typename T, typename Term>
double chunked_sum(const at::Tensor& x, const Term& term) {
  constexpr std::int64_t kChunk = 16384;
  const std::int64_t n = x.numel();
  const T* data = x.data_ptr<T>();
  std::vector<double> sums(static_cast<std::size_t>((n + kChunk - 1) / kChunk));
  const auto add_chunks = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const T* chunk = data + c * kChunk;
      const std::int64_t length = std::min(kChunk, n - c * kChunk);
      sums[static_cast<std::size_t>(c)] = run_simd([=]() WEFT_INLINE {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = 0; i < length; ++i) {
          sum += term(static_cast<double>(chunk[i]));
        }
        return sum;
      });
    }
  };
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), 1, add_chunks);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace weft::ops
