#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/sharding/propagate.h"

namespace weft {

/// How the gradient of a weight is made along an axis along which its forward node splits samples.
///   follows  from the samples that are there: a partial sum, which is reduced
///   whole    from all samples, whose parts are gathered, on every device (sufficient factors)
///   rows     every device makes its rows of it, from all samples
enum class GradientSplit : std::uint8_t { follows, whole, rows };

/// A gradient node that does not follow.
struct OwnGradient {
  Splits splits;
  NodePlacement placed;
};

/// The gradient of a weight that is `output` of a node, along each axis as wanted. Nothing if it is
/// no partial sum along an axis where it is not to follow, or has no rows that can be split.
[[nodiscard]] std::optional<OwnGradient> own_gradient(const Factors& factors, const Mesh& mesh,
                                                      const Splits& follows, int output,
                                                      const std::vector<GradientSplit>& wanted,
                                                      const std::string& name);

}  // namespace weft
