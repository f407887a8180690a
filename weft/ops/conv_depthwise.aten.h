#pragma once

#include "weft/ops/coded.h"
#include "weft/ops/conv.h"

namespace weft::ops {

/// Convolutions of one channel and one filter a group, in f32 and f64: vector code over channels,
/// which lie side by side. Calls as for conv, conv_input_grad (or conv_transpose) and
/// conv_weight_grad.
[[nodiscard]] Tensors depthwise_forward(const KernelCall& call, const ConvSizes& sizes,
                                        const ConvMethod& method);
[[nodiscard]] Tensors depthwise_input_grad(const KernelCall& call, const ConvSizes& sizes,
                                           const ConvMethod& method);
[[nodiscard]] Tensors depthwise_weight_grad(const KernelCall& call, const ConvSizes& sizes,
                                            const ConvMethod& method);

}  // namespace weft::ops
