#include "weft/kernels/torch_headers.h"

#include <algorithm>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/index_map.aten.h"

namespace weft::ops {
namespace {

// Where place i of a dim of the given length lies, if it is outside.
std::int64_t inside(std::int64_t i, std::int64_t length, const std::string& mode) {
  if (i >= 0 && i < length) {
    return i;
  }
  if (mode == "constant") {
    return -1;
  }
  if (mode == "edge") {
    return std::clamp<std::int64_t>(i, 0, length - 1);
  }
  return i < 0 ? -i : 2 * (length - 1) - i;
}

// From the padded tensor to x.
IndexMaps pad_maps(const Attrs& attrs, const Shape& x, const Shape& padded) {
  IndexMaps maps;
  for (std::size_t d = 0; d < x.size(); ++d) {
    IndexMap map = identity_map(padded[d].size);
    for (std::int64_t& i : map) {
      i = inside(i - attr_ints(attrs, "before")[d], x[d].size, attr_text(attrs, "mode"));
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace

Tensors pad_kernel(const KernelCall& call) {
  const OpCall& c = call.call;
  const IndexMaps maps = pad_maps(c.attrs, c.inputs[0].shape, c.outputs[0].shape);
  return {take_mapped(call.inputs[0], maps, attr_number(c.attrs, "value"))};
}

Tensors pad_backward_kernel(const KernelCall& call) {
  const OpCall& c = call.call;
  const IndexMaps maps = pad_maps(c.attrs, c.outputs[0].shape, c.inputs[0].shape);
  return {add_mapped(call.inputs[0], maps, c.outputs[0])};
}

}  // namespace weft::ops
