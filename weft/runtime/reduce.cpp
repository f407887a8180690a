// Sums of several terms, a block that stays in the first-level cache at a time:
//
//   sum ← terms[0];  sum ← sum + terms[m] for m = 1, 2, …;  out ← sum
//
// The order is that of the terms whatever the block, so the bits do not depend on how callers cut
// the data.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/reduce.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::size_t kBlock = 1024;  // elements

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};

struct Larger {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;  // a != a: NaN stays
  }
};

// T: in memory; Sum: in which it is added.
template <typename T, typename Sum, typename Op>
void reduce_as(std::span<const std::byte* const> terms, std::byte* out, std::size_t bytes, Op op) {
  const std::size_t count = bytes / sizeof(T);
  auto* to = reinterpret_cast<T*>(out);
  Sum sum[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    const auto* first = reinterpret_cast<const T*>(terms[0]) + begin;
#pragma omp simd
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] = static_cast<Sum>(first[i]);
    }
    for (std::size_t m = 1; m < terms.size(); ++m) {
      const auto* term = reinterpret_cast<const T*>(terms[m]) + begin;
#pragma omp simd
      for (std::size_t i = 0; i < n; ++i) {
        sum[i] = op(sum[i], static_cast<Sum>(term[i]));
      }
    }
#pragma omp simd
    for (std::size_t i = 0; i < n; ++i) {
      to[begin + i] = static_cast<T>(sum[i]);
    }
  }
}

template <typename Op>
void reduce_by(DType dtype, std::span<const std::byte* const> terms, std::byte* out,
               std::size_t bytes, Op op) {
  switch (dtype) {
    case DType::f64:
      return reduce_as<double, double>(terms, out, bytes, op);
    case DType::f32:
      return reduce_as<float, float>(terms, out, bytes, op);
    case DType::bf16:
      return reduce_as<c10::BFloat16, float>(terms, out, bytes, op);
    case DType::f16:
      return reduce_as<c10::Half, float>(terms, out, bytes, op);
    case DType::i64:
      return reduce_as<std::int64_t, std::int64_t>(terms, out, bytes, op);
    case DType::i32:
      return reduce_as<std::int32_t, std::int32_t>(terms, out, bytes, op);
    case DType::u8:
      return reduce_as<std::uint8_t, std::uint8_t>(terms, out, bytes, op);
  }
  WEFT_CHECK(!"unknown dtype");
}

}  // namespace

void reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> terms, std::byte* out,
            std::size_t bytes) {
  WEFT_CHECK(!terms.empty());
  if (op == ReduceOp::sum) {
    reduce_by(dtype, terms, out, bytes, Add());
  } else {
    reduce_by(dtype, terms, out, bytes, Larger());
  }
}

}  // namespace weft
