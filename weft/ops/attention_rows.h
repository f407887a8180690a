#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "weft/ops/gemm.h"
#include "weft/ops/simd.h"

// Loops over rows of a tile of scores, and blocks of rows as matrices.
namespace weft::ops {

/// Rows of a tensor as a matrix of numbers to compute with: in place, or converted into `copy`.
template <typename T>
Matrix<Wide<T>> wide_rows(const T* from, std::int64_t stride, std::int64_t rows,
                          std::int64_t columns, Wide<T>* copy) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    return {from, stride};
  } else {
    run_simd([=]() WEFT_INLINE {
      for (std::int64_t i = 0; i < rows; ++i) {
        for_packs<T>(columns, [=](std::int64_t j, int count) WEFT_INLINE {
          Pack<float> x;
          load(x, from + i * stride + j, count);
          store(copy + i * columns + j, x, count);
        });
      }
    });
    return {copy, columns};
  }
}

/// to = factor · x; they may be the same.
template <typename T>
void scale_row(T* to, const Wide<T>* x, std::int64_t n, Wide<T> factor) {
  using W = Wide<T>;
  run_simd([=]() WEFT_INLINE {
    for_packs<T>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      load(y, x + j, count);
      y *= factor;
      store(to + j, y, count);
    });
  });
}

/// to += x
template <typename T>
void add_row(Wide<T>* to, const T* x, std::int64_t n) {
  using W = Wide<T>;
  run_simd([=]() WEFT_INLINE {
    for_packs<T>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      Pack<W> z;
      load(y, to + j, count);
      load(z, x + j, count);
      y += z;
      store(to + j, y, count);
    });
  });
}

/// to *= x
template <typename W>
void multiply_row(W* to, const W* x, std::int64_t n) {
  run_simd([=]() WEFT_INLINE {
    for_packs<W>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      Pack<W> z;
      load(y, to + j, count);
      load(z, x + j, count);
      y *= z;
      store(to + j, y, count);
    });
  });
}

template <typename T>
Wide<T> dot(const T* a, const T* b, std::int64_t n) {
  using W = Wide<T>;
  return run_simd([=]() WEFT_INLINE {
    Pack<W> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> x;
      Pack<W> y;
      load(x, a + j, count);
      load(y, b + j, count);
      sums += x * y;
    });
    return sum_lanes<W>(sums);
  });
}

/// The softmax of a row that comes in parts: `top` is the largest score so far, `sum` that of
/// exp(score - top).
template <typename W>
struct RunningSoftmax {
  W top = std::numeric_limits<W>::lowest();  // finite, so that scores of -inf have weight zero
  W sum = 0;

  /// Turns the next scores into exp(x - top). Returns the factor by which a new top makes
  /// everything before smaller.
  W add(W* x, std::int64_t n) {
    W highest = top;
    const W part = run_simd([=, &highest]() WEFT_INLINE {
      constexpr W kLowest = std::numeric_limits<W>::lowest();
      Pack<W> tops = Pack<W>{} + kLowest;
      for_packs<W>(n, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<W> y;
        load(y, x + j, count, kLowest);
        tops = y > tops ? y : tops;
      });
      const W found = max_lanes<W>(tops);
      highest = found > highest ? found : highest;
      Pack<W> sums = {};
      for_packs<W>(n, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<W> y;
        load(y, x + j, count, -std::numeric_limits<W>::infinity());
        y -= highest;
        exp_pack(y);
        store(x + j, y, count);
        sums += y;
      });
      return sum_lanes<W>(sums);
    });
    const W shrink = sum > 0 && highest > top ? std::exp(top - highest) : W{1};
    sum = sum * shrink + part;
    top = highest;
    return shrink;
  }

  /// A row that saw nothing has weights of zero, here and in the gradient.
  [[nodiscard]] W inverse_sum() const { return sum > 0 ? 1 / sum : sum; }
  [[nodiscard]] W lse() const { return sum > 0 ? top + std::log(sum) : sum; }
};

}  // namespace weft::ops
