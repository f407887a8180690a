#include "weft/kernels/torch_headers.h"

#include "weft/ops/attention.h"
#include "weft/ops/attention_kernel.h"

namespace weft::ops {

AttentionSizes attention_sizes(const OpCall& call, std::size_t q) {
  const TensorType& queries = call.inputs[q];
  return {.b = queries.size(0),
          .s = queries.size(1),
          .t = call.inputs[q + 1].size(1),
          .h = queries.size(2),
          .d = queries.size(3),
          .causal = attr_int(call.attrs, "causal") != 0,
          .scale = attr_number(call.attrs, "scale"),
          .dropout = attr_number(call.attrs, "dropout")};
}

std::int64_t AttentionSizes::blocks() const {
  return (s + kAttentionRows - 1) / kAttentionRows;
}

AttentionBlock AttentionSizes::block(std::int64_t pair, std::int64_t index) const {
  const std::int64_t sample = pair / h;
  const std::int64_t head = pair % h * d;
  const std::int64_t first = index * kAttentionRows;
  const std::int64_t rows = std::min(kAttentionRows, s - first);
  return {.pair = pair,
          .first = first,
          .rows = rows,
          .keys = keys(first + rows - 1),
          .at_q = (sample * s + first) * stride() + head,
          .at_k = sample * t * stride() + head};
}

void for_attention_pairs(const AttentionSizes& sizes, const at::Tensor& like, std::int64_t count,
                         const std::function<void(std::int64_t, void*)>& work) {
  const std::int64_t pairs = sizes.b * sizes.h;
  const std::int64_t tiles = attention_tiles(pairs);
  if (tiles == 0) {
    return;
  }
  const std::int64_t size = count * attention_tile_size(sizes.s, sizes.t);
  const at::Tensor scratch = at::empty({tiles * size}, like.options());
  const std::int64_t bytes = size * static_cast<std::int64_t>(scratch.element_size());
  auto* const memory = static_cast<char*>(scratch.data_ptr());
  // No more tasks than tiles, so the numbers of the threads stay below that of the tiles.
  const std::int64_t grain = (pairs + tiles - 1) / tiles;
  at::parallel_for(0, pairs, grain, [&](std::int64_t begin, std::int64_t end) {
    char* const tile = memory + at::get_thread_num() * bytes;
    for (std::int64_t pair = begin; pair < end; ++pair) {
      work(pair, tile);
    }
  });
}

// Operand 0 is q in the forward call and dout in the backward one: [b,s,h,d] both. Without regions
// the local tensors are the whole ones.
AttentionDropout::AttentionDropout(const AttentionSizes& sizes, const KernelEnv& env)
    : stream_{env.seed, env.step, env.node}, sizes_(sizes), heads_(sizes.h) {
  if (active() && !env.inputs.empty()) {
    first_sample_ = env.inputs[0].at(0).begin;
    first_head_ = env.inputs[0].at(2).begin;
    heads_ = env.whole_inputs.at(0).at(2).size;
  }
}

std::uint64_t AttentionDropout::row_begin(std::int64_t pair, std::int64_t row) const {
  const std::int64_t sample = first_sample_ + pair / sizes_.h;
  const std::int64_t head = first_head_ + pair % sizes_.h;
  return static_cast<std::uint64_t>(((sample * heads_ + head) * sizes_.s + row) * sizes_.t);
}

}  // namespace weft::ops
