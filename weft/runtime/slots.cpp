// Where tensors of slots are. A slot that lives for a micro-batch has a tensor for each; others
// have one.
#include "weft/kernels/torch_headers.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/runtime/dtypes.h"
#include "weft/runtime/executor_impl.h"

namespace weft {

int Executor::Impl::samples_key(SlotId slot, int micro_batch) const {
  return stage->slots[slot].lifetime == Lifetime::micro_batch ? micro_batch : -1;
}

SlotState& Executor::Impl::state(SlotId slot, int micro_batch) {
  const auto row = static_cast<std::size_t>(samples_key(slot, micro_batch) + 1);
  return states[row * stage->slots.size() + static_cast<std::size_t>(slot)];
}

const at::Tensor& Executor::Impl::read(SlotId slot, int micro_batch) {
  const SlotState& s = state(slot, micro_batch);
  if (!s.tensor.defined()) {
    throw Error(Blame::bug, fmt::format("bug in weft: slot %{} \"{}\" is read but holds nothing",
                                        slot, stage->slots[slot].name));
  }
  return s.tensor;
}

TensorType Executor::Impl::local_type_of(SlotId slot, int micro_batch) const {
  return slot_type(*stage, slot, at, samples_in(program, samples_key(slot, micro_batch)));
}

Region Executor::Impl::local_region(SlotId slot, int micro_batch) const {
  const Slot& s = stage->slots[slot];
  const std::int64_t samples = samples_in(program, samples_key(slot, micro_batch));
  return region(bind(s.type.shape, samples), s.placements, stage->mesh, at);
}

at::Tensor Executor::Impl::allocate(const TensorType& type) const {
  return at::empty(sizes_of(type.shape), at::TensorOptions(scalar_type_of(type.dtype)));
}

at::Tensor Executor::Impl::destination(SlotId slot, int micro_batch) {
  const Slot& s = stage->slots[slot];
  const TensorType type = local_type_of(slot, micro_batch);
  if (s.view_of < 0) {
    SlotState& own = state(slot, micro_batch);
    if (!own.tensor.defined()) {
      own.tensor = allocate(type);
    }
    return own.tensor;
  }
  const at::Tensor& shared = read(s.view_of, micro_batch);
  if (shared.sizes() != at::IntArrayRef(sizes_of(type.shape)) ||
      shared.scalar_type() != scalar_type_of(type.dtype)) {
    throw Error(Blame::bug,
                fmt::format("bug in weft: slot %{} \"{}\" {} does not fit the storage of slot %{}",
                            slot, s.name, format_type(type), s.view_of));
  }
  state(slot, micro_batch).tensor = shared;
  return shared;
}

void Executor::Impl::put(SlotId slot, int micro_batch, at::Tensor tensor) {
  const Slot& s = stage->slots[slot];
  if (s.view_of >= 0 && tensor.numel() > 0) {
    WEFT_CHECK(tensor.is_alias_of(read(s.view_of, micro_batch)));
  }
  WEFT_CHECK(s.lifetime != Lifetime::persistent || s.view_of >= 0);
  state(slot, micro_batch).tensor = std::move(tensor);
}

// Of the devices that hold the same part the one whose coordinates are 0 on all axes that replicate
// it writes it; of several stages that hold a tied parameter the first.
LocalTensor Executor::Impl::describe_part(SlotId slot, const at::Tensor& tensor) const {
  const Slot& s = stage->slots[slot];
  bool primary = true;
  for (std::size_t a = 0; a < s.placements.size(); ++a) {
    primary = primary && (s.placements[a].kind == Placement::Kind::shard || at[a] == 0);
  }
  for (int earlier = 0; earlier < stage_index; ++earlier) {
    primary =
        primary && std::ranges::none_of(program.stages[earlier].slots, [&](const Slot& other) {
          return other.value == s.value && other.lifetime == Lifetime::persistent;
        });
  }
  return {.name = graph.values[s.value].name,
          .type = bind(s.type, 1),
          .region = local_region(slot, -1),
          .primary = primary,
          .bytes = {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()}};
}

void Executor::Impl::clear_step() {
  for (std::size_t i = 0; i < states.size(); ++i) {
    SlotState& s = states[i];
    for (const auto& reader : s.readers) {
      finish(reader);
    }
    if (s.writer) {
      finish(s.writer);
    }
    s.readers.clear();
    s.writer.reset();
    const Slot& slot = stage->slots[i % stage->slots.size()];
    if (slot.lifetime != Lifetime::persistent || slot.view_of >= 0) {
      s.tensor.reset();
    }
  }
}

}  // namespace weft
