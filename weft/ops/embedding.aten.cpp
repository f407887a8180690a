// Row ids[i] of the table's gradient gets row i of dy. Threads share out the columns, not the rows:
// each adds its part of all rows in their order, so the sum is the same for any number of threads
// and needs no memory of its own.

#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/cpu_kernel.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

template <typename T>
void add_row(T* to, const T* from, std::int64_t n) {
  run_simd([=]() WEFT_INLINE {
    for_packs<T>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> x;
      Pack<T> y;
      load(x, from + j, count);
      load(y, to + j, count);
      y += x;
      store(to + j, y, count);
    });
  });
}

template <typename T>
Tensors add_rows(const KernelCall& call) {
  const TensorType& type = call.call.outputs[0];
  const std::int64_t rows = type.size(0);
  const std::int64_t h = type.size(1);
  const at::Tensor grad = at::zeros({rows, h}, call.inputs[0].options());
  const T* const dy = call.inputs[0].data_ptr<T>();
  const std::int64_t* const ids = call.inputs[1].data_ptr<std::int64_t>();
  T* const out = grad.data_ptr<T>();
  const std::int64_t count = call.inputs[1].numel();
  for (std::int64_t i = 0; i < count; ++i) {
    require(ids[i] >= 0 && ids[i] < rows, "embedding: id {} is outside of a table of {} rows",
            ids[i], rows);
  }
  at::parallel_for(0, h, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < count; ++i) {
      add_row(out + ids[i] * h + begin, dy + i * h + begin, end - begin);
    }
  });
  return {grad};
}

}  // namespace

Tensors embedding_weight_grad_kernel(const KernelCall& call) {
  return cpu_dtype(call, "embedding_weight_grad", 0) == DType::f32 ? add_rows<float>(call)
                                                                   : add_rows<double>(call);
}

}  // namespace weft::ops
