#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/ops/op.h"

namespace weft::ops {

/// The kernels hold scores of so many queries and keys of one (sample, head) pair at a time: few
/// enough for the second-level cache, enough for a fast product.
inline constexpr std::int64_t kAttentionRows = 64;
inline constexpr std::int64_t kAttentionKeys = 256;

/// Scratch memories that may be in use at once, and so the most threads that work on one call. A
/// fixed number, so that the memory does not depend on the number of threads.
[[nodiscard]] inline std::int64_t attention_tiles(std::int64_t tasks) {
  return std::min<std::int64_t>(tasks, 32);
}

/// What a call is about: q[b,s,h,d], k[b,t,g,d], v[b,t,g,e], bias[n,h,s,t]?.
struct AttentionSizes {
  std::int64_t b = 0;
  std::int64_t s = 0;
  std::int64_t t = 0;
  std::int64_t h = 0;
  std::int64_t g = 0;
  std::int64_t d = 0;
  std::int64_t e = 0;
  std::int64_t n = 0;  // 0: there is no bias
  bool causal = false;
  std::int64_t window = 0;  // 0: none
  double scale = 1;
  double dropout = 0;
  bool bias_gradient = false;
  bool narrow = false;           // bf16: blocks are converted to f32
  bool ring = false;             // others of its runs see other keys
  bool continues = false;        // a ring's run behind the first: outputs hold a part already
  std::int64_t first_query = 0;  // where the s queries begin among all of the sample
  std::int64_t first_key = 0;    // same of the t keys, in a ring
  std::int64_t all_keys = 0;     // of the sample

  [[nodiscard]] std::int64_t heads_per_group() const { return h / g; }
  /// The keys that query `row` of these sees.
  [[nodiscard]] Range keys(std::int64_t row) const;
  /// Queries [first, first + rows) of block `i`.
  [[nodiscard]] Range queries(std::int64_t i) const {
    return {i * kAttentionRows, std::min(s, (i + 1) * kAttentionRows)};
  }
  [[nodiscard]] std::int64_t blocks() const { return (s + kAttentionRows - 1) / kAttentionRows; }

  /// Pieces of work that share nothing they write: a block of queries in the forward kernel; in the
  /// backward one a group of a sample, or of all samples that share a row of the bias.
  [[nodiscard]] std::int64_t forward_tasks() const { return b * h * blocks(); }
  [[nodiscard]] std::int64_t backward_tasks() const { return (bias_gradient ? n : b) * g; }
  /// Numbers (f64 for f64, else f32) that a task needs.
  [[nodiscard]] std::int64_t forward_scratch() const;
  [[nodiscard]] std::int64_t backward_scratch() const;
};

/// From bound types; inputs q, q + 1 and q + 2 are the queries, keys and values, `bias` the bias if
/// there are so many.
[[nodiscard]] AttentionSizes attention_sizes(const OpCall& call, std::size_t q, std::size_t bias);

}  // namespace weft::ops
