// relative_buckets() -> y[s,t], i64: the bucket of the distance from query s to key t, the rows of
// T5's table of biases. d = t - s.
//
//   both directions: one half of the buckets is for d > 0, the other for d <= 0; n = |d|
//   causal:          n = max(0, -d)
//
// Of m buckets (those of a half, or all) the first m/2 hold one distance each; the others grow by a
// constant factor up to max_distance, and the last one takes all that is farther:
//
//   bucket = n                                                                  n < m/2
//   bucket = min(m - 1, m/2 + floor(log(n / (m/2)) / log(max_distance / (m/2)) · (m - m/2)))
//
// in f32, as the weights that people have were trained with.

#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer(const OpCall& call) {
  const std::int64_t queries = attr_int(call.attrs, "queries");
  const std::int64_t keys = attr_int(call.attrs, "keys");
  const std::int64_t buckets = attr_int(call.attrs, "buckets");
  const std::int64_t distance = attr_int(call.attrs, "max_distance");
  const std::int64_t sides = attr_int(call.attrs, "bidirectional") != 0 ? 2 : 1;
  require(queries >= 1 && keys >= 1, "relative_buckets: a table of {} queries and {} keys", queries,
          keys);
  require(buckets >= 2 * sides && buckets % sides == 0,
          "relative_buckets: {} buckets cannot be shared out over {} direction(s)", buckets, sides);
  require(distance > buckets / sides / 2,
          "relative_buckets: max_distance is {}, but {} buckets hold one distance each", distance,
          buckets / sides / 2);
  return {{{queries, keys}, DType::i64}};
}

FactorRule factors(const OpCall&) {
  return {.dims = " -> s t"};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 8);
}

}  // namespace

OpDef relative_buckets() {
  return {.name = "relative_buckets",
          .min_inputs = 0,
          .max_inputs = 0,
          .infer = infer,
          .factors = factors,
          .no_gradient = "it has no inputs",
          .cost = cost};
}

}  // namespace weft::ops
