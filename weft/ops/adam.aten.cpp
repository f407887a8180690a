// adam and adamw, which differ in where weight decay goes: into the gradient, or past it.
//
//   g' = clip g + coupled w,   w' = decay w - step_size m' / (sqrt(v') inverse_root_bias + epsilon)
//
// with coupled = weight_decay and decay = 1 for adam, coupled = 0 and decay = 1 - lr weight_decay
// for adamw.
#include "weft/kernels/torch_headers.h"

#include <cmath>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

// The scalars of an update, computed in f64 once.
template <typename T>
struct Scalars {
  T clip = 1;
  T coupled = 0;
  T decay = 1;
  T beta1 = 0;
  T beta2 = 0;
  T rest1 = 0;  // 1 - beta1
  T rest2 = 0;
  T step_size = 0;          // lr / (1 - beta1^t)
  T inverse_root_bias = 1;  // 1 / sqrt(1 - beta2^t)
  T epsilon = 0;
};

// item() goes through the dispatcher, which takes longer than the update of a bias.
double number_of(const at::Tensor& scalar) {
  return scalar.scalar_type() == at::kDouble ? *scalar.data_ptr<double>()
                                             : static_cast<double>(*scalar.data_ptr<float>());
}

template <typename T>
Scalars<T> scalars(const KernelCall& call, bool is_decoupled) {
  const Attrs& attrs = call.call.attrs;
  const double beta1 = attr_number(attrs, "beta1");
  const double beta2 = attr_number(attrs, "beta2");
  const double weight_decay = attr_number(attrs, "weight_decay");
  const double lr = number_of(call.inputs[4]);
  const double step = number_of(call.inputs[5]);
  return {.clip = call.inputs.size() > 6 ? static_cast<T>(number_of(call.inputs[6])) : T(1),
          .coupled = static_cast<T>(is_decoupled ? 0 : weight_decay),
          .decay = static_cast<T>(is_decoupled ? 1 - lr * weight_decay : 1),
          .beta1 = static_cast<T>(beta1),
          .beta2 = static_cast<T>(beta2),
          .rest1 = static_cast<T>(1 - beta1),
          .rest2 = static_cast<T>(1 - beta2),
          .step_size = static_cast<T>(lr / (1 - std::pow(beta1, step))),
          .inverse_root_bias = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, step))),
          .epsilon = static_cast<T>(attr_number(attrs, "epsilon"))};
}

template <typename T>
struct Operands {
  T* w = nullptr;
  const T* g = nullptr;
  T* m = nullptr;
  T* v = nullptr;
};

template <typename T>
WEFT_INLINE inline void update_pack(const Operands<T>& at, const Scalars<T>& s, int count) {
  Pack<T> w;
  Pack<T> g;
  Pack<T> m;
  Pack<T> v;
  load(w, at.w, count);
  load(g, at.g, count);
  load(m, at.m, count);
  load(v, at.v, count);
  g = g * s.clip + w * s.coupled;
  m = m * s.beta1 + g * s.rest1;
  v = v * s.beta2 + g * g * s.rest2;
  store(at.m, m, count);
  store(at.v, v, count);
  sqrt_pack(v);
  store(at.w, w * s.decay - m * s.step_size / (v * s.inverse_root_bias + s.epsilon), count);
}

template <typename T>
void update(const KernelCall& call, bool is_decoupled) {
  const Scalars<T> s = scalars<T>(call, is_decoupled);
  const Operands<T> all{call.inputs[0].data_ptr<T>(), call.inputs[1].data_ptr<T>(),
                        call.inputs[2].data_ptr<T>(), call.inputs[3].data_ptr<T>()};
  at::parallel_for(0, call.inputs[0].numel(), 16384, [=](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
      for_packs<T>(end - begin, [=](std::int64_t j, int count) WEFT_INLINE {
        const std::int64_t i = begin + j;
        update_pack<T>({all.w + i, all.g + i, all.m + i, all.v + i}, s, count);
      });
    });
  });
}

Tensors run(const KernelCall& call, bool is_decoupled) {
  if (call.inputs[0].scalar_type() == at::kDouble) {
    update<double>(call, is_decoupled);
  } else {
    update<float>(call, is_decoupled);
  }
  return {call.inputs[0], call.inputs[2], call.inputs[3]};
}

}  // namespace

Tensors adam_kernel(const KernelCall& call) {
  return run(call, false);
}

Tensors adamw_kernel(const KernelCall& call) {
  return run(call, true);
}

}  // namespace weft::ops
