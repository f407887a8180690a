#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/index_map.aten.h"

namespace weft::ops {
namespace {

// From slices to the tensor that was cut, whose sizes are `lengths`.
IndexMaps slice_maps(const Attrs& attrs, const Shape& lengths) {
  IndexMaps maps;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    const std::int64_t size = attr_ints(attrs, "sizes")[d];
    const std::int64_t length = lengths[d].size;
    if (size <= 0) {
      maps.push_back(identity_map(length));
      continue;
    }
    std::int64_t at = attr_ints(attrs, "starts")[d];
    at += at < 0 ? length : 0;
    IndexMap map;
    for (std::int64_t i = 0; i < size; ++i, at += attr_ints(attrs, "steps")[d]) {
      map.push_back(at);
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace

Tensors slice_kernel(const KernelCall& call) {
  const IndexMaps maps = slice_maps(call.call.attrs, call.call.inputs[0].shape);
  return {take_mapped(call.inputs[0], maps, 0)};
}

// No entry is taken twice, so that each entry of dx has at most one source.
Tensors slice_backward_kernel(const KernelCall& call) {
  const Shape& x = call.call.outputs[0].shape;
  IndexMaps maps = slice_maps(call.call.attrs, x);
  for (std::size_t d = 0; d < maps.size(); ++d) {
    maps[d] = inverse_map(maps[d], x[d].size);
  }
  return {take_mapped(call.inputs[0], maps, 0)};
}

}  // namespace weft::ops
