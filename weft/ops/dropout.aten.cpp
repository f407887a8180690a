#include "weft/kernels/torch_headers.h"

#include <ATen/OpMathType.h>

#include <algorithm>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/philox.h"
#include "weft/ops/runs.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

struct Mask {
  RandomStream stream;
  double p = 0;

  // y = x / (1 - p) where element `global` of the whole tensor is kept. y may be x.
  template <typename T>
  WEFT_INLINE void apply(const T* x, T* y, std::uint64_t global, std::int64_t length) const {
    using W = at::opmath_type<T>;
    const std::uint32_t dropped = highest_dropped(p);
    const W keep_scale = static_cast<W>(1 / (1 - p));
    std::uint32_t words[kRandomWords];
    for (std::int64_t i = 0; i < length;) {
      const auto skip = static_cast<std::int64_t>(global % 4);
      random_words(stream, global / 4, words);
      const std::uint32_t* word = words + skip;
      const std::int64_t count = std::min(kRandomWords - skip, length - i);
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) {
        const W kept = x[i + j] * keep_scale;  // always computed: a branch would not vectorise
        y[i + j] = static_cast<T>(word[j] > dropped ? kept : W(0));
      }
      i += count;
      global += static_cast<std::uint64_t>(count);
    }
  }
};

Runs runs_of(const KernelCall& call) {
  if (!call.env.outputs.empty()) {
    return {call.env.outputs[0], call.env.whole_outputs.at(0)};
  }
  Region all;
  for (const Dim dim : call.call.outputs[0].shape) {
    all.push_back({0, dim.size});
  }
  return {all, call.call.outputs[0].shape};
}

}  // namespace

Tensors dropout_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  at::Tensor y = output_of(call, 0);
  const Mask mask{{call.env.seed, call.env.step, call.env.node}, attr_number(call.call.attrs, "p")};
  const Runs runs = runs_of(call);
  if (runs.count() == 0) {
    return {y};
  }
  if (mask.p == 0) {
    y.copy_(x);
    return {y};
  }
  const std::int64_t length = runs[0].length;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "dropout", [&] {
    const auto* from = x.data_ptr<scalar_t>();
    auto* to = y.data_ptr<scalar_t>();
    // Threads share elements, not runs: there may be a single run.
    at::parallel_for(0, x.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const Run run = runs[begin / length];
        const std::int64_t skip = begin - run.local;
        const std::int64_t count = std::min(end - begin, length - skip);
        run_simd([=]() WEFT_INLINE {
          mask.apply(from + begin, to + begin, static_cast<std::uint64_t>(run.global + skip),
                     count);
        });
        begin += count;
      }
    });
  });
  return {y};
}

Tensors dropout_backward_kernel(const KernelCall& call) {
  return dropout_kernel(call);  // the map is linear and its own transpose
}

}  // namespace weft::ops
