#pragma once

#include <string>

#include "weft/ops/builder.h"

namespace weft::ops {

/// Labels that count nothing, as in PyTorch.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// The cross entropy of logits[…,v] against labels[…], summed over rows and multiplied by
/// inv_count[]. Emits two nodes, `name`_scores (label_scores) and `name` (nll).
[[nodiscard]] ValueId cross_entropy(Builder& build, ValueId logits, ValueId labels,
                                    ValueId inv_count, const std::string& name);

}  // namespace weft::ops
