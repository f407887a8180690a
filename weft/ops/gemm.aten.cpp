// Products of matrices that lie in larger tensors. Debian's and PyPI's libtorch bring oneDNN along,
// whose sgemm is up to a quarter faster than the BLAS behind at::mm (2 threads, sizes of a small
// GPT). It has no header here, so it is looked up by name; where it is missing, and for f64, ATen
// does the work.

#include "weft/kernels/torch_headers.h"

#include <dlfcn.h>

#include "weft/ops/gemm.h"

namespace weft::ops {
namespace {

// dnnl_sgemm of oneDNN 1 to 3: row-major, 0 on success.
using Sgemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                      std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);

Sgemm find_sgemm() {
  return reinterpret_cast<Sgemm>(dlsym(RTLD_DEFAULT, "dnnl_sgemm"));
}

template <typename T>
at::Tensor view(const Matrix<T>& matrix, std::int64_t rows, std::int64_t columns) {
  const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value);
  const std::int64_t one = 1;
  return at::from_blob(
      const_cast<T*>(matrix.data), {rows, columns},
      {matrix.transposed ? one : matrix.stride, matrix.transposed ? matrix.stride : one}, options);
}

template <typename T>
void gemm_aten(const Gemm<T>& g) {
  at::Tensor c = view(Matrix<T>{g.c, g.c_stride}, g.m, g.n);
  c.addmm_(view(g.a, g.m, g.k), view(g.b, g.k, g.n), g.beta, g.alpha);
}

}  // namespace

void gemm(const Gemm<float>& g) {
  static const Sgemm sgemm = find_sgemm();
  if (g.m == 0 || g.n == 0) {
    return;
  }
  const int failed =
      sgemm == nullptr || g.k == 0 ||
      sgemm(g.a.transposed ? 'T' : 'N', g.b.transposed ? 'T' : 'N', g.m, g.n, g.k, g.alpha,
            g.a.data, g.a.stride, g.b.data, g.b.stride, g.beta, g.c, g.c_stride) != 0;
  if (failed != 0) {
    gemm_aten(g);
  }
}

void gemm(const Gemm<double>& g) {
  gemm_aten(g);
}

}  // namespace weft::ops
