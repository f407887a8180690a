#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/ops/gemm.h"
#include "weft/ops/simd.h"

namespace weft::ops {

/// c[m,n] = a[m,k] b[k,n] + bias[n] in every row; the rows of c follow each other.
struct Bf16Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix<Bf16> a = {};
  Matrix<Bf16> b = {};
  Bf16* c = nullptr;
  const Bf16* bias = nullptr;  // null: none
};

/// The most of m, n and k that is in f32 at one time.
struct Bf16Blocks {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  [[nodiscard]] std::int64_t numbers() const { return m * k + k * n + m * n; }
};

[[nodiscard]] inline Bf16Blocks bf16_blocks(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {std::min<std::int64_t>(m, 512), std::min<std::int64_t>(n, 512),
          std::min<std::int64_t>(k, 1024)};
}

/// Takes tensor memory for bf16_blocks(m, n, k).numbers() f32.
void gemm(const Bf16Gemm& product);

}  // namespace weft::ops
