// Products of bf16 matrices. Processors without instructions for bf16 multiply it tens of times
// slower than f32 (libtorch 1.13, AVX2: 0.1 against 4 GFLOP/s on a busy core), so blocks of a and b
// are converted to f32, multiplied by sgemm and summed in f32; each entry of c is rounded once.

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"
#include "weft/ops/gemm_bf16.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kGrain = 64;  // rows worth a thread

// Rows and columns as they are stored, from (row, column) on.
void widen_block(const Matrix<Bf16>& from, std::int64_t row, std::int64_t column, std::int64_t rows,
                 std::int64_t columns, float* to) {
  const Bf16* const first = from.data + row * from.stride + column;
  at::parallel_for(0, rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      copy_wide(to + i * columns, first + i * from.stride, columns);
    }
  });
}

// A block of a matrix, which begins at (row, column) of it, as f32.
Matrix<float> wide_block(const Matrix<Bf16>& from, std::int64_t row, std::int64_t column,
                         std::int64_t rows, std::int64_t columns, float* to) {
  if (from.transposed) {
    widen_block(from, column, row, columns, rows, to);
    return {to, rows, true};
  }
  widen_block(from, row, column, rows, columns, to);
  return {to, columns, false};
}

// c = block + bias, rounded
void write_block(const Bf16Gemm& g, std::int64_t row, std::int64_t column, std::int64_t rows,
                 std::int64_t columns, const float* block) {
  at::parallel_for(0, rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const from = block + i * columns;
      Bf16* const to = g.c + (row + i) * g.n + column;
      const Bf16* const bias = g.bias == nullptr ? nullptr : g.bias + column;
      run_simd([=]() WEFT_INLINE {
        for_packs<float>(columns, [=](std::int64_t j, int count) WEFT_INLINE {
          Pack<float> x;
          Pack<float> y = {};
          load(x, from + j, count);
          if (bias != nullptr) {
            load(y, bias + j, count);
          }
          store(to + j, x + y, count);
        });
      });
    }
  });
}

}  // namespace

void gemm(const Bf16Gemm& g) {
  const Bf16Blocks size = bf16_blocks(g.m, g.n, g.k);
  const at::Tensor memory = at::empty({size.numbers()}, options_of<float>());
  float* const a = data_of<float>(memory);
  float* const b = a + size.m * size.k;
  float* const c = b + size.k * size.n;
  for (std::int64_t j = 0; j < g.n; j += size.n) {
    const std::int64_t n = std::min(size.n, g.n - j);
    for (std::int64_t i = 0; i < g.m; i += size.m) {
      const std::int64_t m = std::min(size.m, g.m - i);
      if (g.k == 0) {
        std::fill(c, c + m * n, 0.0F);
      }
      for (std::int64_t l = 0; l < g.k; l += size.k) {
        const std::int64_t k = std::min(size.k, g.k - l);
        gemm(Gemm<float>{.m = m,
                         .n = n,
                         .k = k,
                         .a = wide_block(g.a, i, l, m, k, a),
                         .b = wide_block(g.b, l, j, k, n, b),
                         .c = c,
                         .c_stride = n,
                         .beta = l == 0 ? 0.0F : 1.0F});
      }
      write_block(g, i, j, m, n, c);
    }
  }
}

}  // namespace weft::ops
