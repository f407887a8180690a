// Instructions that need no other device.
#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/program/local_call.h"
#include "weft/runtime/dtypes.h"
#include "weft/runtime/executor_impl.h"

namespace weft {
namespace {

// acc += term, where they differ in dtype: ATen would convert the term into a temporary that no
// memory model knows.
template <typename Acc, typename Term>
void add_converted(const at::Tensor& acc, const at::Tensor& term) {
  auto* to = acc.data_ptr<Acc>();
  const auto* from = term.data_ptr<Term>();
  at::parallel_for(0, acc.numel(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] += static_cast<Acc>(from[i]);
    }
  });
}

void add_to(const at::Tensor& acc, const at::Tensor& term) {
  WEFT_CHECK(acc.numel() == term.numel());
  if (acc.scalar_type() == term.scalar_type()) {
    acc.add_(term);
  } else if (acc.scalar_type() == at::kFloat && term.scalar_type() == at::kBFloat16) {
    add_converted<float, at::BFloat16>(acc, term);
  } else if (acc.scalar_type() == at::kFloat && term.scalar_type() == at::kHalf) {
    add_converted<float, at::Half>(acc, term);
  } else {
    throw Error(Blame::bug,
                fmt::format("bug in weft: cannot accumulate {} in {}",
                            c10::toString(term.scalar_type()), c10::toString(acc.scalar_type())));
  }
}

/// The memory of a part of the batch; nothing if no data set gives such a part.
struct BatchPart {
  const void* data = nullptr;
  std::size_t numbers = 0;
  at::ScalarType dtype = at::kLong;
};

BatchPart find_part(const SampleBatch& batch, const std::string& name) {
  const auto ids = [](const std::vector<std::int64_t>& part) {
    return BatchPart{.data = part.data(), .numbers = part.size(), .dtype = at::kLong};
  };
  const auto floats = [](const std::vector<float>& part) {
    return BatchPart{.data = part.data(), .numbers = part.size(), .dtype = at::kFloat};
  };
  if (name == "tokens") {
    return ids(batch.tokens);
  }
  if (name == "decoder_tokens") {
    return ids(batch.decoder_tokens);
  }
  if (name == "labels") {
    return ids(batch.labels);
  }
  if (name == "targets") {
    return floats(batch.targets);
  }
  require(name == "x", "the model has an input \"{}\" that no data set gives", name);
  return floats(batch.features);
}

/// The row at which these samples of the step begin in a batch that holds some of them.
std::int64_t row_of(const SampleBatch& batch, const Range& samples) {
  if (batch.held.empty() || samples.size() == 0) {
    return batch.held.empty() ? samples.begin : 0;
  }
  std::int64_t row = 0;
  for (const SampleRange& range : batch.held) {
    if (range.begin <= samples.begin && samples.end <= range.end) {
      return row + samples.begin - range.begin;
    }
    row += range.end - range.begin;
  }
  throw Error(Blame::bug, fmt::format("bug in weft: samples {} to {} of the step were not read",
                                      samples.begin, samples.end - 1));
}

std::int64_t held_rows(const SampleBatch& batch) {
  std::int64_t rows = batch.held.empty() ? batch.samples : 0;
  for (const SampleRange& range : batch.held) {
    rows += range.end - range.begin;
  }
  return rows;
}

/// A view of the batch's own memory: the box of an input whose type has this shape.
at::Tensor view_of_batch(const SampleBatch& batch, const std::string& name, const Shape& type,
                         Region box) {
  WEFT_CHECK(!type.empty() && type[0].batched);
  const Shape held = bind(type, held_rows(batch));
  std::int64_t elements = 1;
  for (const Dim& dim : held) {
    elements *= dim.size;
  }
  const BatchPart part = find_part(batch, name);
  require(static_cast<std::int64_t>(part.numbers) == elements,
          "the data has {} numbers of \"{}\" for a step, the model takes {} ({})", part.numbers,
          name, elements, format_shape(held));
  const std::int64_t each = type[0].size;
  WEFT_CHECK(box[0].begin % each == 0 && box[0].end % each == 0);
  const std::int64_t rows = box[0].size();
  box[0].begin = each * row_of(batch, {box[0].begin / each, box[0].end / each});
  box[0].end = box[0].begin + rows;
  const at::Tensor whole =
      at::from_blob(const_cast<void*>(part.data), sizes_of(held), at::TensorOptions(part.dtype));
  return take_box(whole, box);
}

bool is_given_by_data(const std::string& name) {
  return name != "lr" && name != "step" && name != "inv_count";
}

}  // namespace

Region Executor::Impl::input_box(SlotId slot, int micro_batch) const {
  const Shape& shape = stage->slots[slot].type.shape;
  const std::int64_t first = first_sample(program, samples_key(slot, micro_batch));
  Region box = local_region(slot, micro_batch);
  for (std::size_t d = 0; d < box.size(); ++d) {
    box[d].begin += shape[d].batched ? first * shape[d].size : 0;
    box[d].end += shape[d].batched ? first * shape[d].size : 0;
  }
  return box;
}

void Executor::Impl::run_input(const IssuedInstruction& issued) {
  const SlotId slot = issued.instruction->writes[0];
  const Slot& s = stage->slots[slot];
  const std::string& name = graph.values[s.value].name;
  const at::Tensor target = destination(slot, issued.micro_batch);
  if (name == "lr") {
    target.fill_(input.learning_rate);
  } else if (name == "step") {
    target.fill_(static_cast<double>(input.step));
  } else if (name == "sample_share") {
    target.fill_(static_cast<double>(samples_in(program, issued.micro_batch)) /
                 static_cast<double>(samples_in(program, -1)));
  } else if (name == "inv_count") {
    target.fill_(1.0 / static_cast<double>(std::max<std::int64_t>(input.batch->counted, 1)));
  } else if (target.numel() > 0) {
    target.copy_(
        view_of_batch(*input.batch, name, s.type.shape, input_box(slot, issued.micro_batch)));
  }
}

// The ranges of all micro-batches, joined where they overlap or touch.
std::vector<SampleRange> Executor::needed_samples() const {
  std::vector<SampleRange> ranges;
  for (const IssuedInstruction& issued : impl_->order) {
    if (issued.instruction->opcode != Opcode::input) {
      continue;
    }
    const SlotId slot = issued.instruction->writes[0];
    const Slot& s = impl_->stage->slots[slot];
    const Shape& shape = s.type.shape;
    if (!is_given_by_data(impl_->graph.values[s.value].name) || shape.empty() ||
        !shape[0].batched) {
      continue;
    }
    const Range rows = impl_->input_box(slot, issued.micro_batch)[0];
    if (rows.size() > 0) {
      ranges.push_back({.begin = rows.begin / shape[0].size, .end = rows.end / shape[0].size});
    }
  }
  std::ranges::sort(ranges, {}, &SampleRange::begin);
  std::vector<SampleRange> joined;
  for (const SampleRange& range : ranges) {
    if (!joined.empty() && range.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

// Outputs that lie in an input though the op has no such alias: lowering chose them (see
// overwrite_inputs).
std::vector<int> Executor::Impl::overwritten_inputs(const Instruction& instruction) const {
  const OpDef& def = find_op(ops, graph.nodes[instruction.node].op);
  std::vector<int> inputs(instruction.writes.size(), -1);
  bool any = false;
  for (std::size_t o = 0; o < inputs.size(); ++o) {
    const SlotId view_of = stage->slots[instruction.writes[o]].view_of;
    if (view_of < 0 ||
        std::ranges::find(def.aliases, static_cast<int>(o), &Alias::output) != def.aliases.end()) {
      continue;
    }
    const auto read = std::ranges::find(instruction.reads, view_of);
    WEFT_CHECK(read != instruction.reads.end());
    inputs[o] = static_cast<int>(read - instruction.reads.begin());
    any = true;
  }
  return any ? inputs : std::vector<int>{};
}

PreparedCompute& Executor::Impl::prepared(const IssuedInstruction& issued) {
  PreparedCompute*& known = kernel_at[static_cast<std::size_t>(&issued - order.data())];
  if (known == nullptr) {
    known = &prepare_compute(issued);
  }
  return *known;
}

PreparedCompute& Executor::Impl::prepare_compute(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  const std::int64_t samples = samples_in(program, issued.micro_batch);
  const auto it = kernels.find({&i, samples});
  if (it != kernels.end()) {
    return it->second;
  }
  const Node& node = graph.nodes[i.node];
  const OpCall call =
      local_call(graph, i, [&](SlotId slot) { return local_type_of(slot, issued.micro_batch); });
  KernelEnv env;
  env.seed = seed;
  const Node& drawn_by = node.forward >= 0 ? graph.nodes[node.forward] : node;
  env.node = static_cast<std::uint32_t>(hash_text(drawn_by.name));
  const std::vector<SlotId> inputs(
      i.reads.begin(), i.reads.begin() + static_cast<std::ptrdiff_t>(call.inputs.size()));
  for (const SlotId slot : inputs) {
    const Slot& s = stage->slots[slot];
    env.inputs.push_back(local_region(slot, issued.micro_batch));
    env.whole_inputs.push_back(bind(s.type.shape, samples_in(program, -1)));
    if (node.op == "sum_squares") {
      bool counted = true;
      for (std::size_t a = 0; a < s.placements.size(); ++a) {
        counted = counted && (s.placements[a].kind != Placement::Kind::replicate || at[a] == 0);
      }
      env.counted.push_back(counted);
    }
  }
  for (const SlotId slot : i.writes) {
    env.outputs.push_back(local_region(slot, issued.micro_batch));
    env.whole_outputs.push_back(bind(stage->slots[slot].type.shape, samples_in(program, -1)));
  }
  PreparedKernel kernel = prepare(find_op(ops, node.op), call);
  PreparedCompute& result =
      kernels
          .emplace(std::pair(&i, samples), PreparedCompute{.kernel = std::move(kernel),
                                                           .env = std::move(env),
                                                           .batch_ranges = {},
                                                           .overwrites = overwritten_inputs(i)})
          .first->second;
  const auto note_batch_ranges = [&](const std::vector<SlotId>& slots, std::vector<Region>& where) {
    for (std::size_t o = 0; o < slots.size(); ++o) {
      const Shape& shape = stage->slots[slots[o]].type.shape;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d].batched) {
          result.batch_ranges.push_back(
              {.range = &where[o][d], .first = where[o][d], .per_sample = shape[d].size});
        }
      }
    }
  };
  note_batch_ranges(inputs, result.env.inputs);
  note_batch_ranges(i.writes, result.env.outputs);
  return result;
}

void Executor::Impl::run_compute(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  if (options.gradients != nullptr && issued.phase == Phase::update) {
    keep_gradients(issued);
  }
  PreparedCompute& p = prepared(issued);
  const std::int64_t first = first_sample(program, issued.micro_batch);
  for (const PreparedCompute::BatchRange& b : p.batch_ranges) {
    b.range->begin = b.first.begin + first * b.per_sample;
    b.range->end = b.first.end + first * b.per_sample;
  }
  p.env.step = static_cast<std::uint32_t>(input.step);
  operands.clear();  // a kernel that failed left its own
  destinations.clear();
  for (const SlotId slot : i.reads) {
    operands.push_back(read(slot, issued.micro_batch));
  }
  for (const int input_index : p.overwrites) {
    destinations.push_back(input_index < 0 ? at::Tensor() : operands[input_index]);
  }
  const std::span<const at::Tensor> inputs = std::span(operands).first(p.env.inputs.size());
  std::vector<at::Tensor> outputs = run(p.kernel, p.env, inputs, destinations);
  operands.clear();
  destinations.clear();
  WEFT_CHECK(outputs.size() == i.writes.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    put(i.writes[o], issued.micro_batch, std::move(outputs[o]));
  }
}

void Executor::Impl::run_slice(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  const int dim = i.to.dim;
  const at::Tensor& from = read(i.reads[0], issued.micro_batch);
  const Range whole = local_region(i.reads[0], issued.micro_batch)[dim];
  const Range part = local_region(i.writes[0], issued.micro_batch)[dim];
  const at::Tensor piece = from.narrow(dim, part.begin - whole.begin, part.size());
  if (stage->slots[i.writes[0]].view_of >= 0 &&
      storage_of(*stage, i.writes[0]) == storage_of(*stage, i.reads[0])) {
    WEFT_CHECK(piece.is_contiguous());
    put(i.writes[0], issued.micro_batch, piece);
  } else {
    destination(i.writes[0], issued.micro_batch).copy_(piece);
  }
}

void Executor::Impl::run_accumulate(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  const bool adds = std::ranges::all_of(i.only_first_on, [&](int axis) { return at[axis] == 0; });
  const at::Tensor& term = read(i.reads[0], issued.micro_batch);
  SlotState& sum = state(i.writes[0], issued.micro_batch);
  if (sum.tensor.defined()) {
    if (adds) {
      add_to(sum.tensor, term);
    }
  } else if (!adds) {
    destination(i.writes[0], issued.micro_batch).zero_();
  } else if (moves(*stage, i)) {
    sum.tensor = term;
  } else {
    destination(i.writes[0], issued.micro_batch).copy_(term);
  }
}

void Executor::Impl::run_copy(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  const at::Tensor from = read(i.reads[0], issued.micro_batch);
  destination(i.writes[0], issued.micro_batch).copy_(from);
}

void Executor::Impl::keep_gradients(const IssuedInstruction& issued) {
  for (const SlotId slot : issued.instruction->reads) {
    const Value& value = graph.values[stage->slots[slot].value];
    const bool gradient = value.of >= 0 && value.kind == ValueKind::result &&
                          value.name == graph.values[value.of].name + ".grad";
    if (!gradient) {
      continue;
    }
    const at::Tensor& tensor = read(slot, issued.micro_batch);
    KeptTensor kept{.part = describe_part(slot, tensor), .bytes = {}};
    kept.bytes.assign(kept.part.bytes.begin(), kept.part.bytes.end());
    kept.part.bytes = {};
    options.gradients->push_back(std::move(kept));
  }
}

}  // namespace weft
