#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

template <typename T>
struct Scalars {
  T lr = 0;
  T clip = 1;
  T momentum = 0;
  T weight_decay = 0;
  T own = 0;     // what the step takes of d ...
  T buffer = 1;  // ... and of the buffer
};

template <typename T>
void update(const KernelCall& call) {
  const Attrs& attrs = call.call.attrs;
  const bool nesterov = has_attr(attrs, "nesterov") && attr_int(attrs, "nesterov") == 1;
  const double momentum = attr_number(attrs, "momentum");
  const Scalars<T> s{.lr = call.inputs[3].item<T>(),
                     .clip = call.inputs.size() > 4 ? call.inputs[4].item<T>() : T(1),
                     .momentum = static_cast<T>(momentum),
                     .weight_decay = static_cast<T>(attr_number(attrs, "weight_decay")),
                     .own = static_cast<T>(nesterov ? 1 : 0),
                     .buffer = static_cast<T>(nesterov ? momentum : 1)};
  T* w = call.inputs[0].data_ptr<T>();
  const T* g = call.inputs[1].data_ptr<T>();
  T* buffer = call.inputs[2].data_ptr<T>();
  at::parallel_for(0, call.inputs[0].numel(), 16384, [=](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const T d = g[i] * s.clip + s.weight_decay * w[i];
        buffer[i] = s.momentum * buffer[i] + d;
        w[i] -= s.lr * (s.own * d + s.buffer * buffer[i]);
      }
    });
  });
}

}  // namespace

Tensors sgd_kernel(const KernelCall& call) {
  if (call.inputs[0].scalar_type() == at::kDouble) {
    update<double>(call);
  } else {
    update<float>(call);
  }
  return {call.inputs[0], call.inputs[2]};
}

}  // namespace weft::ops
