// First values of parameters and states. Element i of a normal tensor is the i-th number of the
// stream (seed, 0, name), i counted in the whole tensor: whoever holds a part gets the same
// numbers. Steps count from 1, so no dropout mask shares the stream of an initialisation.
#include "weft/kernels/torch_headers.h"

#include <ATen/Dispatch.h>
#include <c10/core/InferenceMode.h>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/runtime/executor_impl.h"

namespace weft {
namespace {

// Index in the whole tensor of the first element of row `row` of the part. A row runs along the
// last dim.
std::int64_t row_begin(const TensorType& whole, const Region& part, std::int64_t row) {
  const int last = whole.rank() - 1;
  std::int64_t index = part[last].begin;
  std::int64_t stride = whole.size(last);
  for (int d = last - 1; d >= 0; --d) {
    index += (part[d].begin + row % part[d].size()) * stride;
    row /= part[d].size();
    stride *= whole.size(d);
  }
  return index;
}

void fill_normal(const at::Tensor& tensor, const TensorType& whole, const Region& part,
                 const RandomStream& stream, double std_dev) {
  if (tensor.numel() == 0) {
    return;
  }
  const std::int64_t columns = tensor.dim() == 0 ? 1 : tensor.size(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, tensor.scalar_type(), "fill_normal", [&] {
        auto* data = tensor.data_ptr<scalar_t>();
        at::parallel_for(0, tensor.numel(), 4096, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end;) {
            const std::int64_t row = i / columns;
            const std::int64_t first = tensor.dim() == 0 ? 0 : row_begin(whole, part, row);
            const std::int64_t stop = std::min(end, (row + 1) * columns);
            for (; i < stop; ++i) {
              const auto element = static_cast<std::uint64_t>(first + i - row * columns);
              data[i] = static_cast<scalar_t>(normal(stream, element) * std_dev);
            }
          }
        });
      });
}

}  // namespace

void Executor::initialise() {
  const c10::InferenceMode guard;
  Impl& x = *impl_;
  for (std::size_t slot = 0; slot < x.stage->slots.size(); ++slot) {
    const Slot& s = x.stage->slots[slot];
    if (s.lifetime != Lifetime::persistent || s.view_of >= 0) {
      continue;
    }
    const auto id = static_cast<SlotId>(slot);
    const at::Tensor& tensor = x.state(id, -1).tensor;
    const Value& value = x.graph.values[s.value];
    // A copy begins as its parameter does, rounded as the parameter is.
    const bool copied = value.init.kind == Init::Kind::copy;
    WEFT_CHECK(!copied || value.of >= 0);
    const Value& source = copied ? x.graph.values[value.of] : value;
    switch (source.init.kind) {
      case Init::Kind::zeros:
        tensor.zero_();
        break;
      case Init::Kind::ones:
        tensor.fill_(1);
        break;
      case Init::Kind::normal: {
        const RandomStream stream{
            .seed = x.seed, .step = 0, .node = static_cast<std::uint32_t>(hash_text(source.name))};
        const Region part = x.local_region(id, -1);
        if (source.type.dtype == s.type.dtype) {
          fill_normal(tensor, bind(s.type, 1), part, stream, source.init.std_dev);
        } else {
          const at::Tensor rounded =
              at::empty(tensor.sizes(), at::TensorOptions(scalar_type_of(source.type.dtype)));
          fill_normal(rounded, bind(s.type, 1), part, stream, source.init.std_dev);
          tensor.copy_(rounded);
        }
        break;
      }
      case Init::Kind::copy:
        throw Error(Blame::bug, "bug in weft: a copy of a copy");
    }
  }
}

}  // namespace weft
