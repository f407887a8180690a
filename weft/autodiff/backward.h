#pragma once

#include <vector>

#include "weft/ops/builder.h"

namespace weft {

/// A parameter and the sum of its gradient over all uses and micro-batches.
struct ParameterGradient {
  ValueId parameter = -1;
  ValueId gradient = -1;
};

/// Appends the backward nodes of `loss` to the graph that `build` extends, an `accumulate` node for
/// each parameter that the loss depends on. In the order of the parameters. Throws Error{input} for
/// an op without a gradient on the way.
[[nodiscard]] std::vector<ParameterGradient> append_backward(Builder& build, ValueId loss);

/// The dtype in which sums and states of a parameter are kept: f64 for f64, f32 otherwise.
[[nodiscard]] DType wide_dtype(DType dtype);

/// Prefix of the names of nodes made for a node or a parameter: "h.0/attn/q" → "h.0/attn/q.grad",
/// "loss" → "loss/grad", so that they lie in the same layer.
[[nodiscard]] std::string scope_for(const std::string& name, const std::string& purpose);

}  // namespace weft
