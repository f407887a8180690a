#pragma once

#include <cstdint>
#include <functional>

#include "weft/ops/attention.h"
#include "weft/ops/op.h"

namespace at {
class Tensor;
}

// What the kernels of attention and attention_backward share.
//
// They work straight on [b,s,h,d]: a head of a sample is a matrix with row stride h·d, so nothing
// is transposed or copied; only in bf16 blocks are converted to f32. A task walks over tiles, some
// query rows by some keys, and skips those that no query of the block sees. So the s × t scores
// never exist as a whole.
namespace weft::ops {

/// Where things begin in their tensors.
struct AttentionLayout {
  AttentionSizes sizes;
  std::int64_t first_sample = 0;  // of the local part in the whole step

  [[nodiscard]] std::int64_t q(std::int64_t sample, std::int64_t head, std::int64_t row) const {
    return ((sample * sizes.s + row) * sizes.h + head) * sizes.d;
  }
  [[nodiscard]] std::int64_t out(std::int64_t sample, std::int64_t head, std::int64_t row) const {
    return ((sample * sizes.s + row) * sizes.h + head) * sizes.e;
  }
  [[nodiscard]] std::int64_t k(std::int64_t sample, std::int64_t group, std::int64_t key) const {
    return ((sample * sizes.t + key) * sizes.g + group) * sizes.d;
  }
  [[nodiscard]] std::int64_t v(std::int64_t sample, std::int64_t group, std::int64_t key) const {
    return ((sample * sizes.t + key) * sizes.g + group) * sizes.e;
  }
  [[nodiscard]] std::int64_t lse(std::int64_t sample, std::int64_t head, std::int64_t row) const {
    return (sample * sizes.h + head) * sizes.s + row;
  }
  [[nodiscard]] std::int64_t bias(std::int64_t sample, std::int64_t head, std::int64_t row,
                                  std::int64_t key) const {
    const std::int64_t shared = (first_sample + sample) % sizes.n;
    return ((shared * sizes.h + head) * sizes.s + row) * sizes.t + key;
  }
};

/// Operand 0 of both calls has samples, rows and heads as its first dims; operand `keys` is k.
[[nodiscard]] AttentionLayout attention_layout(const AttentionSizes& sizes, const KernelEnv& env,
                                               std::size_t keys);

/// Calls work(task, scratch) for tasks 0 … tasks - 1, in parallel. `scratch` is memory for `size`
/// numbers of the dtype of `like`, and of the calling thread alone.
void for_attention_tasks(std::int64_t tasks, std::int64_t size, const at::Tensor& like,
                         const std::function<void(std::int64_t, void*)>& work);

/// The factors by which dropout multiplies the entries of P.
class AttentionDropout {
 public:
  AttentionDropout(const AttentionLayout& layout, const KernelEnv& env);

  [[nodiscard]] bool active() const { return sizes_.dropout > 0; }

  /// Those of some keys of a query row. An entry's random number is that of its index in the whole
  /// [batch, heads, s, t].
  template <typename T>  // float or double
  void factors(std::int64_t sample, std::int64_t head, std::int64_t row, Range keys, T* to) const;

 private:
  RandomStream stream_;
  AttentionSizes sizes_;
  std::int64_t first_sample_ = 0;
  std::int64_t queries_ = 1;
  std::int64_t first_head_ = 0;
  std::int64_t heads_ = 1;
};

}  // namespace weft::ops
