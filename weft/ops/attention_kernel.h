#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "weft/ops/op.h"

namespace at {
class Tensor;
}

// What the kernels of attention and attention_backward share.
//
// They work straight on [b,s,h,d]: a head of a sample is a matrix with row stride h·d, so nothing
// is transposed or copied. Each (sample, head) pair is a task. It walks over blocks of query rows,
// whose scores fill a small tile; a causal block stops at the diagonal. So the s × t scores never
// exist as a whole.
namespace weft::ops {

/// Some query rows of a pair, and the keys that the last of them sees.
struct AttentionBlock {
  std::int64_t pair = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  std::int64_t at_q = 0;  // where its queries begin in q, and its keys in k
  std::int64_t at_k = 0;
};

struct AttentionSizes {
  std::int64_t b = 0;
  std::int64_t s = 0;
  std::int64_t t = 0;
  std::int64_t h = 0;
  std::int64_t d = 0;
  bool causal = false;
  double scale = 1;
  double dropout = 0;

  [[nodiscard]] std::int64_t stride() const { return h * d; }
  [[nodiscard]] std::int64_t keys(std::int64_t row) const { return causal ? row + 1 : t; }
  [[nodiscard]] std::int64_t blocks() const;
  [[nodiscard]] AttentionBlock block(std::int64_t pair, std::int64_t index) const;
};

/// From the call, whose input `q` holds the queries.
[[nodiscard]] AttentionSizes attention_sizes(const OpCall& call, std::size_t q);

/// Calls work(pair, tile) for every pair, in parallel. A tile is memory for `count` blocks of
/// scores of the dtype of `like`.
void for_attention_pairs(const AttentionSizes& sizes, const at::Tensor& like, std::int64_t count,
                         const std::function<void(std::int64_t, void*)>& work);

/// The factors by which dropout multiplies the entries of P.
class AttentionDropout {
 public:
  AttentionDropout(const AttentionSizes& sizes, const KernelEnv& env);

  [[nodiscard]] bool active() const { return sizes_.dropout > 0; }

  /// Calls use(j, factor) for the first n keys of a query row. An entry's random number is that of
  /// its index in the whole [batch, heads, s, t].
  template <typename Use>
  void for_row(std::int64_t pair, std::int64_t row, std::int64_t n, const Use& use) const {
    const std::uint64_t begin = row_begin(pair, row);
    const double kept = 1.0 / (1.0 - sizes_.dropout);
    const double threshold = sizes_.dropout * 4294967296.0;  // word < threshold ⇔ uniform < p
    std::array<std::uint32_t, 4> words = stream_.block(begin / 4);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::uint64_t element = begin + static_cast<std::uint64_t>(j);
      if (j > 0 && element % 4 == 0) {
        words = stream_.block(element / 4);
      }
      use(j, words[element % 4] < threshold ? 0.0 : kept);
    }
  }

 private:
  [[nodiscard]] std::uint64_t row_begin(std::int64_t pair, std::int64_t row) const;

  RandomStream stream_;
  AttentionSizes sizes_;
  std::int64_t first_sample_ = 0;
  std::int64_t first_head_ = 0;
  std::int64_t heads_ = 1;
};

}  // namespace weft::ops
