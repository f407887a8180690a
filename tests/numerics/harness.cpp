#include "weft/kernels/torch_headers.h"

#include "tests/numerics/harness.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "tests/numerics/moe_cases.h"
#include "weft/ops/rules.h"

namespace weft {

Threads::Threads(int count) : before_(at::get_num_threads()) {
  at::set_num_threads(count);
}

Threads::~Threads() {
  at::set_num_threads(before_);
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = elementwise_cases();
  for (const auto make :
       {attention_cases, dense_cases, generic_cases, moe_cases, training_cases, vision_cases}) {
    for (OpCase& c : make()) {
      cases.push_back(std::move(c));
    }
  }
  for (OpCase& c : cases) {
    for (TensorType& type : c.inputs) {
      type = bind(type, 4);
    }
  }
  return cases;
}

std::string describe(const OpCase& c) {
  std::string text = c.op;
  for (const TensorType& type : c.inputs) {
    text += " " + format_type(type);
  }
  return c.note.empty() ? text : text + " (" + c.note + ")";
}

OpCase in_f32(const OpCase& c) {
  OpCase narrow = c;
  for (TensorType& type : narrow.inputs) {
    type.dtype = type.dtype == DType::f64 ? DType::f32 : type.dtype;
  }
  for (const std::size_t i : c.f64_inputs) {
    narrow.inputs[i].dtype = DType::f64;
  }
  const auto dtype = narrow.attrs.find("dtype");
  if (dtype != narrow.attrs.end() && attr_text(narrow.attrs, "dtype") == "f64") {
    dtype->second = std::string("f32");
  }
  return narrow;
}

std::optional<OpCase> in_bf16(const OpTable& ops, const OpCase& c) {
  const OpCase wide = in_f32(c);
  std::vector<std::size_t> floating;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].dtype == DType::f64 && std::ranges::count(c.f64_inputs, i) == 0) {
      floating.push_back(i);
    }
  }
  const unsigned all = 1U << floating.size();
  for (int kept = 0; kept < static_cast<int>(floating.size()); ++kept) {  // inputs left in f32
    for (unsigned choice = 0; choice < all; ++choice) {
      OpCase low = wide;
      for (std::size_t i = 0; i < floating.size(); ++i) {
        const bool is_kept = (choice >> i & 1U) != 0;
        low.inputs[floating[i]].dtype = is_kept ? DType::f32 : DType::bf16;
      }
      if (std::popcount(choice) != kept) {
        continue;
      }
      try {
        (void)call_of_case(ops, low);
        return low;
      } catch (const Error&) {
        continue;
      }
    }
  }
  return std::nullopt;
}

OpCall call_of_case(const OpTable& ops, const OpCase& c) {
  OpCall call{.inputs = c.inputs, .outputs = {}, .attrs = c.attrs};
  call.outputs = ops::checked_infer(find_op(ops, c.op), call);
  return call;
}

at::Tensor random_tensor(const TensorType& type, std::uint64_t seed) {
  std::vector<std::int64_t> sizes;
  for (const Dim dim : type.shape) {
    sizes.push_back(dim.size);
  }
  const at::Tensor drawn = at::empty(sizes, at::kDouble);
  const RandomStream stream{.seed = seed, .step = 7, .node = 1};
  for (std::int64_t i = 0; i < drawn.numel(); ++i) {
    drawn.data_ptr<double>()[i] = normal(stream, static_cast<std::uint64_t>(i));
  }
  return drawn.to(scalar_type_of(type.dtype));
}

namespace {

at::Tensor random_integers(const TensorType& type, std::int64_t limit, std::uint64_t seed) {
  const at::Tensor ints = random_tensor({type.shape, DType::i64}, seed);
  const RandomStream stream{.seed = seed, .step = 8, .node = 2};
  for (std::int64_t i = 0; i < ints.numel(); ++i) {
    ints.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(
        stream.uniform(static_cast<std::uint64_t>(i)) * static_cast<double>(limit));
  }
  return ints.to(scalar_type_of(type.dtype));
}

void set(at::Tensor& scalar, double value) {
  scalar.fill_(value);
}

// Batch norm: numbers of rows, and squares that are no less than those of a mean.
void set_statistics(const OpCase& c, Tensors& inputs) {
  if (c.op == "batch_norm_moments") {
    set(inputs[2], 12);
    inputs[1] = inputs[0] * inputs[0] / 12 + at::abs(inputs[1]);
  }
  if (c.op == "batch_norm" || c.op == "batch_norm_input_grad") {
    set(inputs[c.f64_inputs[0]], 12);
  }
  if (c.op == "batch_norm_inference") {
    inputs[2].abs_();
  }
  if (c.op == "batch_norm_inference_backward") {
    inputs[3].abs_();
  }
}

}  // namespace

std::vector<std::int64_t> sizes(const TensorType& type) {
  std::vector<std::int64_t> list;
  for (const Dim dim : type.shape) {
    list.push_back(dim.size);
  }
  return list;
}

Tensors inputs_of_case(const OpCase& c) {
  Tensors inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorType& type = c.inputs[i];
    inputs.push_back(ops::is_floating(type.dtype) ? random_tensor(type, 100 + i)
                                                  : random_integers(type, c.int_limit, 100 + i));
    if (c.low < c.high && ops::is_floating(type.dtype)) {
      inputs.back() = at::sigmoid(inputs.back()) * (c.high - c.low) + c.low;
    }
  }
  if (c.op == "adamw") {
    inputs[3].abs_();
    set(inputs[4], 0.05);
    set(inputs[5], 3);
  }
  if (c.op == "sgd") {
    set(inputs[3], 0.05);
  }
  if (c.op == "clip_scale") {
    inputs[0].abs_();
  }
  if (c.op == "adamw" && inputs.size() > 6) {
    set(inputs[6], 0.25);
  }
  if (c.op == "sgd" && inputs.size() > 4) {
    set(inputs[4], 0.25);
  }
  set_moe_inputs(c, inputs);
  set_statistics(c, inputs);
  set_training_inputs(c, inputs);
  return inputs;
}

KernelEnv test_env() {
  KernelEnv env;
  env.seed = 1234567890123ULL;
  env.step = 5;
  env.node = 77;
  return env;
}

Tensors clones(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.clone());
  }
  return copies;
}

Tensors run_case(const OpTable& ops, const OpCase& c, const Tensors& inputs) {
  return run_op(find_op(ops, c.op), call_of_case(ops, c), test_env(), clones(inputs));
}

double relative_error(const at::Tensor& actual, const at::Tensor& expected, double floor) {
  if (actual.sizes() != expected.sizes()) {
    return std::numeric_limits<double>::infinity();
  }
  if (actual.numel() == 0) {
    return 0;
  }
  const at::Tensor a = actual.to(at::kDouble);
  const at::Tensor e = expected.to(at::kDouble);
  const double difference = (a - e).abs().max().item<double>();
  const double error = difference / std::max(floor, e.abs().max().item<double>());
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

std::size_t differentiable_outputs(const OpCall& call, const std::string& op) {
  return op == "split" || op == "label_scores" ? call.outputs.size() : 1;
}

bool has_no_gradient(const OpCase& c, std::size_t input) {
  return c.flat || !ops::is_floating(c.inputs[input].dtype) || (c.op == "nll" && input == 3) ||
         (c.op == "balance_loss" && input > 0) || (c.op == "moe_route" && input == 1) ||
         (c.op == "batch_norm_inference" && (input == 1 || input == 2));
}

bool is_part_of_composition(const std::string& op) {
  return op == "batch_norm" || op == "batch_norm_input_grad";
}

}  // namespace weft
