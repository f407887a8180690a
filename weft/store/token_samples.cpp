// From w tokens t_0 … t_{w-1} of a stream, with s the model's sequence:
//   next_token            w = s + 1: t_0 … t_{s-1} are given, t_1 … t_s are the labels.
//   masked_token          w = s: exactly max(1, round(0.15 s)) places are drawn, as BERT's data
//                         does, so that the labels of a step are counted without a look at them. Of
//                         the drawn, 80 % show the mask, 10 % a random id, 10 % what they are.
//   sequence_to_sequence  w = s + u: the encoder sees t_0 … t_{s-1}, the labels are the u tokens
//                         that follow, the decoder sees 0 and all labels but the last.
#include "weft/store/token_samples.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/store/permutation.h"

namespace weft {

namespace {

constexpr double kHidden = 0.15;
constexpr double kShowsMask = 0.8;
constexpr double kShowsRandom = 0.9;  // or, below it, a random id
constexpr std::int64_t kStartId = 0;

// Streams of random numbers beside those of synthetic_data.cpp.
enum Purpose : std::uint32_t { kPlaces = 0x6d61736bU, kShown };

std::int64_t hidden_tokens(std::int64_t sequence) {
  return std::max<std::int64_t>(1, std::llround(kHidden * static_cast<double>(sequence)));
}

std::int64_t target_length(const DatasetOptions& options) {
  return options.target_sequence > 0 ? options.target_sequence : options.sequence;
}

std::int64_t shown(std::int64_t token, double uniform, const DatasetOptions& options) {
  if (uniform < kShowsMask) {
    return options.mask_id >= 0 ? options.mask_id : options.vocabulary - 1;
  }
  if (uniform < kShowsRandom) {
    const double rest = (uniform - kShowsMask) / (kShowsRandom - kShowsMask);
    return std::min(options.vocabulary - 1,
                    static_cast<std::int64_t>(rest * static_cast<double>(options.vocabulary)));
  }
  return token;
}

void append_masked(std::span<const std::int64_t> window, const SampleKey& key,
                   const DatasetOptions& options, SampleBatch& batch) {
  const std::size_t first = batch.tokens.size();
  batch.tokens.insert(batch.tokens.end(), window.begin(), window.end());
  batch.labels.resize(batch.labels.size() + window.size(), kIgnoredLabel);
  const std::size_t labels = batch.labels.size() - window.size();
  const auto visit = static_cast<std::uint64_t>(key.visit);
  const RandomStream draw{.seed = options.seed, .step = key.evaluation ? 1U : 0U, .node = kPlaces};
  // A permutation of the places for each visit; its first few are the hidden ones.
  const auto own = draw.block(visit);
  const std::uint64_t seed = own[0] | (std::uint64_t{own[1]} << 32U);
  const RandomStream what{.seed = seed, .step = own[2], .node = kShown};
  const std::int64_t hidden = hidden_tokens(options.sequence);
  for (std::int64_t i = 0; i < hidden; ++i) {
    const std::uint64_t place =
        permuted(static_cast<std::uint64_t>(i), window.size(), seed, own[2]);
    batch.labels[labels + place] = window[place];
    batch.tokens[first + place] =
        shown(window[place], what.uniform(static_cast<std::uint64_t>(i)), options);
  }
}

}  // namespace

TokenWindow token_window(const DatasetOptions& options) {
  const std::int64_t s = options.sequence;
  switch (options.kind) {
    case SampleKind::next_token:
      return {.tokens = s + 1, .stride = s, .counted = s};
    case SampleKind::masked_token:
      return {.tokens = s, .stride = s, .counted = hidden_tokens(s)};
    case SampleKind::sequence_to_sequence: {
      const std::int64_t u = target_length(options);
      return {.tokens = s + u, .stride = s + u, .counted = u};
    }
    default:
      WEFT_CHECK(false);
      return {};
  }
}

void append_token_sample(std::span<const std::int64_t> window, const SampleKey& key,
                         const DatasetOptions& options, SampleBatch& batch) {
  if (options.kind == SampleKind::masked_token) {
    append_masked(window, key, options, batch);
    return;
  }
  const auto s = static_cast<std::size_t>(options.sequence);
  const auto given = window.first(s);
  const auto asked =
      options.kind == SampleKind::next_token ? window.subspan(1, s) : window.subspan(s);
  batch.tokens.insert(batch.tokens.end(), given.begin(), given.end());
  batch.labels.insert(batch.labels.end(), asked.begin(), asked.end());
  if (options.kind == SampleKind::sequence_to_sequence) {
    batch.decoder_tokens.push_back(kStartId);
    batch.decoder_tokens.insert(batch.decoder_tokens.end(), asked.begin(), asked.end() - 1);
  }
}

}  // namespace weft
