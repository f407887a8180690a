// Runs kernels: the one place that turns op definitions into torch calls.
//
// A kernel that is data is a straight line of ATen calls over numbered slots: first the inputs,
// then the outputs of each step. What can be done once is done by `prepare`: operators are looked
// up, constant arguments become IValues, and each step learns which slots die with it, so that no
// temporary outlives its last reader.
#include "weft/kernels/torch_headers.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>

#include <map>
#include <mutex>
#include <optional>

#include "weft/kernels/run_kernel.h"

namespace weft {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// The dispatcher takes a lock and hashes two strings; a program has the same few operators many
// times.
c10::OperatorHandle find_operator(const std::string& schema, const std::string& op) {
  static std::mutex mutex;
  static std::map<std::string, c10::OperatorHandle> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto it = known.find(schema);
  if (it != known.end()) {
    return it->second;
  }
  const auto dot = schema.find('.');
  const std::string overload = dot == std::string::npos ? "" : schema.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema({schema.substr(0, dot), overload});
  if (!found.has_value()) {
    throw Error(Blame::bug, fmt::format("bug in weft: the kernel of op '{}' calls {}, which this "
                                        "libtorch does not have",
                                        op, schema));
  }
  return known.emplace(schema, *found).first->second;
}

struct PreparedStep {
  c10::OperatorHandle handle;
  std::vector<c10::IValue> args;                        // constants; empty where a tensor goes
  std::vector<std::pair<int, int>> tensors;             // (argument, slot)
  std::vector<std::pair<int, std::vector<int>>> lists;  // (argument, slots)
  int outputs = 1;
  std::vector<int> dead;  // slots that nobody reads after this step
};

PreparedStep prepare_step(const KernelSteps::Step& step, const std::string& op) {
  PreparedStep ready{.handle = find_operator(step.schema, op),
                     .args = {},
                     .tensors = {},
                     .lists = {},
                     .outputs = step.outputs,
                     .dead = {}};
  for (const KernelArg& arg : step.args) {
    const int place = static_cast<int>(ready.args.size());
    ready.args.push_back(std::visit(
        Overloaded{[&](KernelSlot s) {
                     ready.tensors.emplace_back(place, s.index);
                     return c10::IValue();
                   },
                   [&](const std::vector<KernelSlot>& slots) {
                     std::vector<int> indices;
                     for (const KernelSlot s : slots) {
                       indices.push_back(s.index);
                     }
                     ready.lists.emplace_back(place, std::move(indices));
                     return c10::IValue();
                   },
                   [](None) { return c10::IValue(); },
                   [](DType dtype) { return c10::IValue(static_cast<int>(scalar_type_of(dtype))); },
                   [](const auto& plain) { return c10::IValue(plain); }},
        arg));
  }
  return ready;
}

std::vector<int> slots_read(const PreparedStep& step) {
  std::vector<int> slots;
  for (const auto& tensor : step.tensors) {
    slots.push_back(tensor.second);
  }
  for (const auto& list : step.lists) {
    slots.insert(slots.end(), list.second.begin(), list.second.end());
  }
  return slots;
}

bool has_type(const at::Tensor& tensor, const TensorType& type) {
  bool same = tensor.scalar_type() == scalar_type_of(type.dtype) && tensor.dim() == type.rank();
  for (int i = 0; same && i < type.rank(); ++i) {
    same = tensor.size(i) == type.shape[static_cast<std::size_t>(i)].size;
  }
  return same && tensor.is_contiguous();
}

}  // namespace

struct PreparedKernel::Impl {
  std::string op;
  OpCall call;
  KernelFn coded = nullptr;  // null: the steps
  int slots = 0;
  std::vector<PreparedStep> steps;
  std::vector<int> outputs;
};

namespace {

// A slot dies with its last reader, or where it is made if it has none; outputs live on.
void find_deaths(PreparedKernel::Impl& kernel, int inputs) {
  std::vector<int> last(static_cast<std::size_t>(kernel.slots), -1);
  int slot = inputs;
  for (std::size_t s = 0; s < kernel.steps.size(); ++s) {
    for (const int read : slots_read(kernel.steps[s])) {
      WEFT_CHECK(read >= 0 && read < slot);
      last[static_cast<std::size_t>(read)] = static_cast<int>(s);
    }
    for (int o = 0; o < kernel.steps[s].outputs; ++o) {
      last[static_cast<std::size_t>(slot++)] = static_cast<int>(s);
    }
  }
  for (const int output : kernel.outputs) {
    last.at(static_cast<std::size_t>(output)) = -1;
  }
  for (int i = inputs; i < kernel.slots; ++i) {
    const int step = last[static_cast<std::size_t>(i)];
    if (step >= 0) {
      kernel.steps[static_cast<std::size_t>(step)].dead.push_back(i);
    }
  }
}

// Of a kernel that only looks at its input in another shape. The dispatcher would take longer than
// all the rest of it.
bool is_view(const KernelSteps& kernel) {
  return kernel.steps().size() == 1 && kernel.steps()[0].schema == "aten::view";
}

std::vector<at::Tensor> view_kernel(const KernelCall& call) {
  c10::SmallVector<std::int64_t, 5> sizes;
  for (const Dim& dim : call.call.outputs[0].shape) {
    sizes.push_back(dim.size);
  }
  at::Tensor view(
      call.inputs[0].unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
  view.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return {std::move(view)};
}

// Puts the results of a call, which the operator left on the stack, into slots.
void take_outputs(torch::jit::Stack& stack, int expected, std::vector<at::Tensor>& slots) {
  if (stack.size() == 1 && stack[0].isTensorList()) {
    std::vector<at::Tensor> list = stack[0].toTensorVector();
    WEFT_CHECK(static_cast<int>(list.size()) == expected);
    for (at::Tensor& tensor : list) {
      slots.push_back(std::move(tensor));
    }
    return;
  }
  WEFT_CHECK(static_cast<int>(stack.size()) == expected);
  for (c10::IValue& value : stack) {
    slots.push_back(std::move(value).toTensor());
  }
}

std::vector<at::Tensor> run_steps(const PreparedKernel::Impl& kernel,
                                  std::span<const at::Tensor> inputs) {
  std::vector<at::Tensor> slots(inputs.begin(), inputs.end());
  slots.reserve(static_cast<std::size_t>(kernel.slots));
  torch::jit::Stack stack;
  for (const PreparedStep& step : kernel.steps) {
    stack.assign(step.args.begin(), step.args.end());
    for (const auto& [place, slot] : step.tensors) {
      stack[static_cast<std::size_t>(place)] = slots[static_cast<std::size_t>(slot)];
    }
    for (const auto& [place, indices] : step.lists) {
      c10::List<at::Tensor> list;
      list.reserve(indices.size());
      for (const int slot : indices) {
        list.push_back(slots[static_cast<std::size_t>(slot)]);
      }
      stack[static_cast<std::size_t>(place)] = std::move(list);
    }
    step.handle.callBoxed(&stack);
    take_outputs(stack, step.outputs, slots);
    stack.clear();
    for (const int slot : step.dead) {
      slots[static_cast<std::size_t>(slot)] = at::Tensor();
    }
  }
  std::vector<at::Tensor> outputs;
  for (const int slot : kernel.outputs) {
    outputs.push_back(slots[static_cast<std::size_t>(slot)]);
  }
  return outputs;
}

}  // namespace

c10::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return c10::ScalarType::Double;
    case DType::f32:
      return c10::ScalarType::Float;
    case DType::bf16:
      return c10::ScalarType::BFloat16;
    case DType::f16:
      return c10::ScalarType::Half;
    case DType::i64:
      return c10::ScalarType::Long;
    case DType::i32:
      return c10::ScalarType::Int;
    case DType::u8:
      return c10::ScalarType::Byte;
  }
  fail_check("known DType", __FILE__, __LINE__);
}

DType dtype_of(c10::ScalarType type) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
    if (scalar_type_of(dtype) == type) {
      return dtype;
    }
  }
  fail_check("weft has this ScalarType", __FILE__, __LINE__);
}

PreparedKernel prepare(const OpDef& def, const OpCall& call) {
  auto kernel = std::make_shared<PreparedKernel::Impl>();
  kernel->op = def.name;
  kernel->call = call;
  if (def.kernel == nullptr) {
    const auto it = coded_kernels().find(def.name);
    if (it == coded_kernels().end()) {
      throw Error(Blame::bug, fmt::format("bug in weft: op '{}' has no kernel", def.name));
    }
    kernel->coded = it->second;
    return PreparedKernel(std::move(kernel));
  }
  const KernelSteps steps = def.kernel(call);
  WEFT_CHECK(steps.inputs() == static_cast<int>(call.inputs.size()));
  if (is_view(steps)) {
    kernel->coded = view_kernel;
    return PreparedKernel(std::move(kernel));
  }
  kernel->slots = steps.inputs();
  for (const KernelSteps::Step& step : steps.steps()) {
    kernel->steps.push_back(prepare_step(step, def.name));
    kernel->slots += step.outputs;
  }
  for (const KernelSlot output : steps.outputs()) {
    kernel->outputs.push_back(output.index);
  }
  find_deaths(*kernel, steps.inputs());
  return PreparedKernel(std::move(kernel));
}

at::Tensor output_of(const KernelCall& call, int output) {
  const auto o = static_cast<std::size_t>(output);
  if (o < call.out.size() && call.out[o].defined()) {
    return call.out[o];
  }
  const TensorType& type = call.call.outputs[o];
  c10::SmallVector<std::int64_t, 5> sizes;
  for (const Dim& dim : type.shape) {
    sizes.push_back(dim.size);
  }
  return at::Tensor(at::detail::empty_cpu(sizes, scalar_type_of(type.dtype)));
}

std::vector<at::Tensor> run(const PreparedKernel& kernel, const KernelEnv& env,
                            std::span<const at::Tensor> inputs, std::span<const at::Tensor> out) {
  std::optional<c10::InferenceMode> inference;
  if (!c10::InferenceMode::is_enabled()) {
    inference.emplace();
  }
  const PreparedKernel::Impl& impl = kernel.impl();
  WEFT_CHECK(inputs.size() == impl.call.inputs.size());
  std::vector<at::Tensor> outputs =
      impl.coded == nullptr
          ? run_steps(impl, inputs)
          : impl.coded({.call = impl.call, .env = env, .inputs = inputs, .out = out});
  bool right = outputs.size() == impl.call.outputs.size();
  for (std::size_t i = 0; right && i < outputs.size(); ++i) {
    right = has_type(outputs[i], impl.call.outputs[i]) &&
            (i >= out.size() || !out[i].defined() || outputs[i].is_same(out[i]));
  }
  if (!right) {
    throw Error(Blame::bug,
                fmt::format("bug in weft: the kernel of op '{}' gave outputs of other types, "
                            "strides or places than the op states",
                            impl.op));
  }
  return outputs;
}

std::vector<at::Tensor> run_op(const OpDef& def, const OpCall& call, const KernelEnv& env,
                               std::span<const at::Tensor> inputs) {
  return run(prepare(def, call), env, inputs);
}

}  // namespace weft
