#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "weft/kernels/torch_headers.h"
#include "weft/ops/simd.h"

namespace weft::ops {

/// The sum of term(x[i]) over n elements; `term` maps packs in place. Four packs of sums: one would
/// wait for itself.
template <typename T, typename Term>
WEFT_INLINE inline double sum_terms(const T* x, std::int64_t n, const Term& term) {
  constexpr int kPacks = 4;
  constexpr int kStep = kPacks * kLanes<double>;
  Pack<double> sums[kPacks] = {};
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int k = 0; k < kPacks; ++k) {
      Pack<double> value;
      for (int lane = 0; lane < kLanes<double>; ++lane) {
        value[lane] = static_cast<double>(x[i + k * kLanes<double> + lane]);
      }
      term(value);
      sums[k] += value;
    }
  }
  for (; i < n; ++i) {
    Pack<double> value = {static_cast<double>(x[i])};  // term(0) must be 0
    term(value);
    sums[0] += value;
  }
  return sum_lanes<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// The same over all elements of a tensor, in f64. Sums of chunks of a fixed length are added in
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
      sums[static_cast<std::size_t>(c)] =
          run_simd([=]() WEFT_INLINE { return sum_terms(chunk, length, term); });
    }
  };
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), 1, add_chunks);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace weft::ops
