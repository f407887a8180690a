#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// Ops that run alike on a device: the same share of its peak, the same measured table.
enum class OpClass : std::uint8_t {
  matmul,
  weight_grad,  // products summed over the batch; like matmul where a device does not name it
  attention,
  convolution,
  stream,  // everything that reads and writes memory once: elementwise, norms, updates, copies
};
inline constexpr int kOpClasses = 5;
/// The name in cluster files.
[[nodiscard]] std::string_view op_class_name(OpClass op_class);
[[nodiscard]] OpClass op_class(std::string_view op);

}  // namespace weft
