#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/index_map.aten.h"

namespace weft::ops {

Tensors roll_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  IndexMaps maps;
  for (const std::int64_t size : x.sizes()) {
    maps.push_back(identity_map(size));
  }
  const Ints& dims = attr_ints(call.call.attrs, "dims");
  const Ints& shifts = attr_ints(call.call.attrs, "shifts");
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const std::int64_t dim = dims[k] < 0 ? dims[k] + x.dim() : dims[k];
    const std::int64_t size = x.size(dim);
    for (std::int64_t& i : maps[static_cast<std::size_t>(dim)]) {
      i = ((i - shifts[k]) % size + size) % size;
    }
  }
  return {take_mapped(x, maps, 0)};
}

}  // namespace weft::ops
