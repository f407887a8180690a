// Rows of tokens and rows of slots. Threads share out the tokens: no two choices have one slot, so
// nobody writes where another does.

#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <vector>

#include "weft/ops/coded.h"
#include "weft/ops/element.aten.h"

namespace weft::ops {
namespace {

// The choices of all tokens, and which slots of y[e,c,h] are here.
struct Slots {
  const std::int64_t* expert = nullptr;
  const std::int64_t* position = nullptr;
  std::int64_t k = 1;
  std::int64_t tokens = 0;
  Range experts = {};
  Range places = {};

  // Row of y of a token's choice, -1 if it was dropped or lies elsewhere.
  [[nodiscard]] std::int64_t row(std::int64_t token, std::int64_t choice) const {
    const std::int64_t e = expert[token * k + choice];
    const std::int64_t c = position[token * k + choice];
    const bool here =
        c >= 0 && e >= experts.begin && e < experts.end && c >= places.begin && c < places.end;
    return here ? (e - experts.begin) * places.size() + c - places.begin : -1;
  }
};

// The choices are inputs i and i + 1; y is an operand of the given type and region (none: all).
Slots slots_of(const KernelCall& call, std::size_t i, const TensorType& y,
               const std::vector<Region>& regions, std::size_t operand) {
  Slots slots;
  slots.expert = call.inputs[i].data_ptr<std::int64_t>();
  slots.position = call.inputs[i + 1].data_ptr<std::int64_t>();
  slots.k = call.inputs[i].size(-1);
  slots.tokens = call.inputs[i].numel() / slots.k;
  slots.experts = regions.empty() ? Range{0, y.size(0)} : regions[operand][0];
  slots.places = regions.empty() ? Range{0, y.size(1)} : regions[operand][1];
  return slots;
}

std::vector<std::int64_t> sizes_of(const TensorType& type) {
  std::vector<std::int64_t> sizes;
  for (int d = 0; d < type.rank(); ++d) {
    sizes.push_back(type.size(d));
  }
  return sizes;
}

// Tokens that are worth a thread.
std::int64_t grain(std::int64_t h) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, h));
}

// to = sum over i of weights[i] · rows[i]
template <typename T>
void weighted_sum(T* to, const std::vector<const T*>& rows, const std::vector<Wide<T>>& weights,
                  std::int64_t n) {
  run_simd([&]() WEFT_INLINE {
    for_packs<Wide<T>>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<Wide<T>> sum = {};
      for (std::size_t i = 0; i < rows.size(); ++i) {
        Pack<Wide<T>> y;
        load(y, rows[i] + j, count);
        sum += y * weights[i];
      }
      store(to + j, sum, count);
    });
  });
}

// to = weight · from; returns the product of `from` and `y`.
template <typename T>
Wide<T> scale_and_dot(T* to, const T* from, const T* y, Wide<T> weight, std::int64_t n) {
  return run_simd([=]() WEFT_INLINE {
    Pack<Wide<T>> sums = {};
    for_packs<Wide<T>>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<Wide<T>> x;
      Pack<Wide<T>> z;
      load(x, from + j, count);
      load(z, y + j, count);
      sums += x * z;
      store(to + j, x * weight, count);
    });
    return sum_lanes<Wide<T>>(sums);
  });
}

template <typename T>
Tensors dispatch(const KernelCall& call) {
  const TensorType& type = call.call.outputs[0];
  const Slots slots = slots_of(call, 1, type, call.env.outputs, 0);
  const std::int64_t h = type.size(2);
  const at::Tensor y = at::zeros(sizes_of(type), call.inputs[0].options());
  const T* const x = call.inputs[0].data_ptr<T>();
  T* const out = y.data_ptr<T>();
  at::parallel_for(0, slots.tokens, grain(h), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < slots.k; ++i) {
        const std::int64_t row = slots.row(t, i);
        if (row >= 0) {
          std::copy_n(x + t * h, h, out + row * h);
        }
      }
    }
  });
  return {y};
}

// moe_combine; without gates (null) every weight is one.
template <typename T>
Tensors combine(const KernelCall& call, const T* gates) {
  const TensorType& type = call.call.inputs[0];
  const Slots slots = slots_of(call, 1, type, call.env.inputs, 0);
  const std::int64_t h = type.size(2);
  const at::Tensor result = at::empty(sizes_of(call.call.outputs[0]), call.inputs[0].options());
  const T* const y = call.inputs[0].data_ptr<T>();
  T* const out = result.data_ptr<T>();
  at::parallel_for(0, slots.tokens, grain(h), [&](std::int64_t begin, std::int64_t end) {
    std::vector<const T*> rows;
    std::vector<Wide<T>> weights;
    for (std::int64_t t = begin; t < end; ++t) {
      rows.clear();
      weights.clear();
      for (std::int64_t i = 0; i < slots.k; ++i) {
        const std::int64_t row = slots.row(t, i);
        if (row >= 0) {
          rows.push_back(y + row * h);
          weights.push_back(gates == nullptr ? Wide<T>{1}
                                             : static_cast<Wide<T>>(gates[t * slots.k + i]));
        }
      }
      weighted_sum(out + t * h, rows, weights, h);
    }
  });
  return {result};
}

template <typename T>
Tensors combine_backward(const KernelCall& call) {
  const TensorType& type = call.call.inputs[1];
  const Slots slots = slots_of(call, 2, type, call.env.inputs, 1);
  const std::int64_t h = type.size(2);
  Tensors grads = {at::zeros_like(call.inputs[1]), at::zeros_like(call.inputs[4])};
  const T* const dout = call.inputs[0].data_ptr<T>();
  const T* const y = call.inputs[1].data_ptr<T>();
  const T* const gates = call.inputs[4].data_ptr<T>();
  T* const dy = grads[0].data_ptr<T>();
  T* const dgates = grads[1].data_ptr<T>();
  at::parallel_for(0, slots.tokens, grain(h), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < slots.k; ++i) {
        const std::int64_t row = slots.row(t, i);
        if (row >= 0) {
          const auto gate = static_cast<Wide<T>>(gates[t * slots.k + i]);
          dgates[t * slots.k + i] =
              static_cast<T>(scale_and_dot(dy + row * h, dout + t * h, y + row * h, gate, h));
        }
      }
    }
  });
  return grads;
}

}  // namespace

Tensors moe_dispatch_kernel(const KernelCall& call) {
  return with_element(call, "moe_dispatch", 0,
                      [&](auto type) { return dispatch<decltype(type)>(call); });
}

Tensors moe_dispatch_backward_kernel(const KernelCall& call) {
  return with_element(call, "moe_dispatch_backward", 0,
                      [&](auto type) { return combine<decltype(type)>(call, nullptr); });
}

Tensors moe_combine_kernel(const KernelCall& call) {
  return with_element(call, "moe_combine", 0, [&](auto type) {
    using T = decltype(type);
    return combine<T>(call, call.inputs[3].data_ptr<T>());
  });
}

Tensors moe_combine_backward_kernel(const KernelCall& call) {
  return with_element(call, "moe_combine_backward", 1,
                      [&](auto type) { return combine_backward<decltype(type)>(call); });
}

}  // namespace weft::ops
