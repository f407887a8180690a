#pragma once

#include <cstdint>

namespace weft::ops {

/// A row-major matrix inside a larger tensor. `transposed`: its transpose is stored.
template <typename T>
struct Matrix {
  const T* data = nullptr;
  std::int64_t stride = 0;  // between stored rows
  bool transposed = false;
};

/// c[m,n] = alpha a[m,k] b[k,n] + beta c; c is not read if beta is 0.
template <typename T>
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix<T> a = {};
  Matrix<T> b = {};
  T* c = nullptr;
  std::int64_t c_stride = 0;
  T alpha = 1;
  T beta = 0;
};

/// Takes no tensor memory. Uses all threads, or the calling one alone inside at::parallel_for.
void gemm(const Gemm<float>& product);
void gemm(const Gemm<double>& product);

}  // namespace weft::ops
