#include "weft/kernels/torch_headers.h"

#include "weft/ops/attention_kernel.h"
#include "weft/ops/philox.h"

namespace weft::ops {
namespace {

// Without regions the local tensors are the whole ones.
std::int64_t begin_of(const KernelEnv& env, std::size_t dim, std::size_t operand = 0) {
  return env.inputs.empty() ? 0 : env.inputs.at(operand).at(dim).begin;
}

// to[j] = 0 or `kept`, for elements begin + j of the stream.
template <typename T>
void draw_factors(const RandomStream& random, std::uint64_t begin, std::int64_t n, double p,
                  T* to) {
  run_simd([stream = random, begin, n, to, dropped = highest_dropped(p),
            kept = static_cast<T>(1 / (1 - p))]() WEFT_INLINE {
    std::uint32_t words[kRandomWords];
    for (std::int64_t i = 0; i < n;) {
      const std::uint64_t element = begin + static_cast<std::uint64_t>(i);
      const auto skip = static_cast<std::int64_t>(element % 4);
      random_words(stream, element / 4, words);
      const std::uint32_t* const word = words + skip;
      const std::int64_t count = std::min(kRandomWords - skip, n - i);
      for (std::int64_t j = 0; j < count; ++j) {
        to[i + j] = word[j] > dropped ? kept : T{0};
      }
      i += count;
    }
  });
}

}  // namespace

AttentionLayout attention_layout(const AttentionSizes& sizes, const KernelEnv& env,
                                 std::size_t keys) {
  AttentionLayout layout{.sizes = sizes, .first_sample = begin_of(env, 0)};
  layout.sizes.first_query = begin_of(env, 1);
  layout.sizes.first_key = begin_of(env, 1, keys);
  layout.sizes.all_keys = env.inputs.empty() ? sizes.t : env.whole_inputs.at(keys).at(1).size;
  return layout;
}

void for_attention_tasks(std::int64_t tasks, std::int64_t size, const at::Tensor& like,
                         const std::function<void(std::int64_t, void*)>& work) {
  const std::int64_t tiles = attention_tiles(tasks);
  if (tiles == 0) {
    return;
  }
  const at::Tensor scratch = at::empty({tiles * size}, like.options());
  const std::int64_t bytes = size * static_cast<std::int64_t>(scratch.element_size());
  auto* const memory = static_cast<char*>(scratch.data_ptr());
  // No more parts than tiles, so the numbers of the threads stay below that of the tiles.
  const std::int64_t grain = (tasks + tiles - 1) / tiles;
  at::parallel_for(0, tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    char* const tile = memory + at::get_thread_num() * bytes;
    for (std::int64_t task = begin; task < end; ++task) {
      work(task, tile);
    }
  });
}

AttentionDropout::AttentionDropout(const AttentionLayout& layout, const KernelEnv& env)
    : stream_{env.seed, env.step, env.node},
      sizes_(layout.sizes),
      first_sample_(layout.first_sample),
      queries_(env.inputs.empty() ? sizes_.s : env.whole_inputs.at(0).at(1).size),
      first_head_(begin_of(env, 2)),
      heads_(env.inputs.empty() ? sizes_.h : env.whole_inputs.at(0).at(2).size) {
}

template <typename T>
void AttentionDropout::factors(std::int64_t sample, std::int64_t head, std::int64_t row, Range keys,
                               T* to) const {
  const std::int64_t line = (first_sample_ + sample) * heads_ + first_head_ + head;
  const std::int64_t first = (line * queries_ + sizes_.first_query + row) * sizes_.all_keys +
                             sizes_.first_key + keys.begin;
  draw_factors(stream_, static_cast<std::uint64_t>(first), keys.size(), sizes_.dropout, to);
}

template void AttentionDropout::factors(std::int64_t, std::int64_t, std::int64_t, Range,
                                        float*) const;
template void AttentionDropout::factors(std::int64_t, std::int64_t, std::int64_t, Range,
                                        double*) const;

}  // namespace weft::ops
