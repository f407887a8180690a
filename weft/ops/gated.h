#pragma once

#include <cstdint>

#include "weft/ops/op.h"

namespace weft::ops {

enum class Gate : std::uint8_t { silu, gelu, gelu_tanh, relu, sigmoid, identity };

/// What the attribute `function` names. Throws Error{input} if it names nothing.
[[nodiscard]] Gate gate_of(const Attrs& attrs);

}  // namespace weft::ops
