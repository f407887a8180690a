#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

template <typename T>
struct Scalars {
  T lr = 0;
  T decay = 1;  // 1 - lr weight_decay
  T clip = 1;
  T beta1 = 0;
  T beta2 = 0;
  T rest1 = 0;  // 1 - beta1
  T rest2 = 0;
};

template <typename T>
Scalars<T> scalars(const KernelCall& call) {
  const Attrs& attrs = call.call.attrs;
  const double beta1 = attr_number(attrs, "beta1");
  const double beta2 = attr_number(attrs, "beta2");
  const double lr = call.inputs[3].item<double>();
  return {.lr = static_cast<T>(lr),
          .decay = static_cast<T>(1 - lr * attr_number(attrs, "weight_decay")),
          .clip = call.inputs.size() > 4 ? call.inputs[4].item<T>() : T(1),
          .beta1 = static_cast<T>(beta1),
          .beta2 = static_cast<T>(beta2),
          .rest1 = static_cast<T>(1 - beta1),
          .rest2 = static_cast<T>(1 - beta2)};
}

template <typename T>
void update(const KernelCall& call) {
  const Scalars<T> s = scalars<T>(call);
  T* w = call.inputs[0].data_ptr<T>();
  const T* gradient = call.inputs[1].data_ptr<T>();
  T* m = call.inputs[2].data_ptr<T>();
  at::parallel_for(0, call.inputs[0].numel(), 16384, [=](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const T g = gradient[i] * s.clip;
        const T u = s.beta1 * m[i] + s.rest1 * g;
        // Not a number stays none: a broken step must not look like a good one.
        const T sign = u > 0 ? T(1) : (u < 0 ? T(-1) : u);
        w[i] = w[i] * s.decay - s.lr * sign;
        m[i] = s.beta2 * m[i] + s.rest2 * g;
      }
    });
  });
}

}  // namespace

Tensors lion_kernel(const KernelCall& call) {
  if (call.inputs[0].scalar_type() == at::kDouble) {
    update<double>(call);
  } else {
    update<float>(call);
  }
  return {call.inputs[0], call.inputs[2]};
}

}  // namespace weft::ops
