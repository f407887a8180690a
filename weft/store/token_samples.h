#pragma once

#include <cstdint>
#include <span>

#include "weft/store/dataset.h"

namespace weft {

/// How samples are cut from a stream of tokens.
struct TokenWindow {
  std::int64_t tokens = 0;   // that a sample is made of
  std::int64_t stride = 0;   // from one sample to the next
  std::int64_t counted = 0;  // labels of a sample that are not ignored
};
[[nodiscard]] TokenWindow token_window(const DatasetOptions& options);

/// Makes tokens and labels of `options.kind` from a window.
void append_token_sample(std::span<const std::int64_t> window, const SampleKey& key,
                         const DatasetOptions& options, SampleBatch& batch);

}  // namespace weft
