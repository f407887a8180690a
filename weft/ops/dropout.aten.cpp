#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <cmath>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/runs.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

// Philox for kBlocks neighbouring blocks side by side, so that the compiler makes vector code of
// it. Four words a block: words[4 i + k] is word k of block first + i, the same as
// RandomStream::block gives.
constexpr int kBlocks = 16;
constexpr int kWords = 4 * kBlocks;

WEFT_INLINE inline void draw(const RandomStream& stream, std::uint64_t first,
                             std::uint32_t* words) {
  std::uint32_t c0[kBlocks];
  std::uint32_t c1[kBlocks];
  std::uint32_t c2[kBlocks];
  std::uint32_t c3[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(block);
    c1[i] = static_cast<std::uint32_t>(block >> 32U);
    c2[i] = stream.step;
    c3[i] = stream.node;
  }
  auto key0 = static_cast<std::uint32_t>(stream.seed);
  auto key1 = static_cast<std::uint32_t>(stream.seed >> 32U);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53U} * c0[i];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c2[i];
      c0[i] = static_cast<std::uint32_t>(b >> 32U) ^ c1[i] ^ key0;
      c1[i] = static_cast<std::uint32_t>(b);
      c2[i] = static_cast<std::uint32_t>(a >> 32U) ^ c3[i] ^ key1;
      c3[i] = static_cast<std::uint32_t>(a);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  for (int i = 0; i < kBlocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

struct Mask {
  RandomStream stream;
  double p = 0;

  // y = x / (1 - p) where element `global` of the whole tensor is kept: word / 2^32 >= p, or as
  // whole numbers word > ceil(2^32 p) - 1. (p = 0 drops nothing and never comes here.)
  template <typename T>
  WEFT_INLINE void apply(const T* x, T* y, std::uint64_t global, std::int64_t length) const {
    const auto highest_dropped = static_cast<std::uint32_t>(std::ceil(p * 4294967296.0) - 1);
    const T keep_scale = static_cast<T>(1 / (1 - p));
    std::uint32_t words[kWords];
    for (std::int64_t i = 0; i < length;) {
      const auto skip = static_cast<std::int64_t>(global % 4);
      draw(stream, global / 4, words);
      const std::uint32_t* word = words + skip;
      const std::int64_t count = std::min(kWords - skip, length - i);
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) {
        const T kept = x[i + j] * keep_scale;  // always computed: a branch would not vectorise
        y[i + j] = word[j] > highest_dropped ? kept : T(0);
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
