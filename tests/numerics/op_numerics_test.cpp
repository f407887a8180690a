// Every case: the gradient against central differences in f64, the f32 kernel against the f64 one,
// the kernel against a composition of ATen functions.
#include "weft/kernels/torch_headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/numerics/harness.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft {
namespace {

// A graph of one forward node and its gradient, over inputs of the types of a case and one output
// gradient for each differentiable output.
struct GradientGraph {
  Graph graph;
  std::vector<ValueId> inputs;
  std::vector<ValueId> weights;  // the output gradients
  std::vector<ValueId> grads;    // -1 for inputs that are not floating
};

GradientGraph gradient_graph(const OpTable& ops, const OpCase& c) {
  GradientGraph g;
  Builder build(g.graph, ops);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    g.inputs.push_back(build.input("in" + std::to_string(i), c.inputs[i]));
  }
  const std::vector<ValueId> outputs = build.emit_all(c.op, g.inputs, c.attrs);
  const Node node = g.graph.nodes.back();
  const OpCall call = call_of(g.graph, node);
  std::vector<ValueId> output_grads(outputs.size(), -1);
  for (std::size_t i = 0; i < differentiable_outputs(call, c.op); ++i) {
    output_grads[i] = build.input("weight" + std::to_string(i), call.outputs[i]);
    g.weights.push_back(output_grads[i]);
  }
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    wanted.push_back(c.flat ? ops::is_floating(c.inputs[i].dtype) : !has_no_gradient(c, i));
  }
  g.grads = find_op(ops, c.op).gradient({.build = build,
                                         .node = node,
                                         .inputs = g.inputs,
                                         .outputs = outputs,
                                         .output_grads = output_grads,
                                         .wanted = wanted});
  return g;
}

// Runs all nodes; `values` holds the inputs. Notes the ops it has run.
void run_graph(const OpTable& ops, const Graph& graph, std::vector<at::Tensor>& values,
               std::set<std::string>& ran) {
  for (const Node& node : graph.nodes) {
    Tensors inputs;
    for (const ValueId id : node.inputs) {
      inputs.push_back(values.at(static_cast<std::size_t>(id)));
    }
    const Tensors outputs = run_op(find_op(ops, node.op), call_of(graph, node), test_env(), inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      values.at(static_cast<std::size_t>(node.outputs[i])) = outputs[i];
    }
    ran.insert(node.op);
  }
}

double loss(const OpTable& ops, const OpCase& c, const Tensors& inputs, const Tensors& weights) {
  const Tensors outputs = run_case(ops, c, inputs);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += (outputs[i] * weights[i]).sum().item<double>();
  }
  return sum;
}

at::Tensor central_differences(const OpTable& ops, const OpCase& c, Tensors inputs,
                               std::size_t which, const Tensors& weights) {
  constexpr double kStep = 1e-5;
  at::Tensor grad = at::empty_like(inputs[which]);
  inputs[which] = inputs[which].clone();
  for (std::int64_t i = 0; i < grad.numel(); ++i) {
    double& x = inputs[which].data_ptr<double>()[i];
    const double old = x;
    x = old + kStep;
    const double above = loss(ops, c, inputs, weights);
    x = old - kStep;
    const double below = loss(ops, c, inputs, weights);
    x = old;
    grad.data_ptr<double>()[i] = (above - below) / (2 * kStep);
  }
  return grad;
}

void check_gradient(const OpTable& ops, const OpCase& c, std::set<std::string>& ran) {
  const GradientGraph g = gradient_graph(ops, c);
  const Tensors inputs = inputs_of_case(c);
  std::vector<at::Tensor> values(g.graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<std::size_t>(g.inputs[i])] = inputs[i];
  }
  Tensors weights;
  for (std::size_t i = 0; i < g.weights.size(); ++i) {
    const auto id = static_cast<std::size_t>(g.weights[i]);
    weights.push_back(random_tensor(g.graph.values[id].type, 900 + i));
    values[id] = weights.back();
  }
  run_graph(ops, g.graph, values, ran);
  ASSERT_EQ(g.grads.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (has_no_gradient(c, i)) {
      EXPECT_EQ(g.grads[i], -1) << "input " << i;
      continue;
    }
    ASSERT_GE(g.grads[i], 0) << "input " << i;
    const at::Tensor& grad = values[static_cast<std::size_t>(g.grads[i])];
    const at::Tensor expected = central_differences(ops, c, inputs, i, weights);
    EXPECT_LE(relative_error(grad, expected), 1e-6) << "input " << i;
  }
}

// Differences need f64 all the way, and something to differ.
bool is_exact(const OpCall& call) {
  bool floating = false;
  for (const TensorTypes* types : {&call.inputs, &call.outputs}) {
    for (const TensorType& type : *types) {
      if (ops::is_floating(type.dtype) && type.dtype != DType::f64) {
        return false;
      }
    }
  }
  for (const TensorType& type : call.inputs) {
    floating = floating || ops::is_floating(type.dtype);
  }
  return floating;
}

TEST(OpNumerics, GradientsEqualCentralDifferences) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  std::set<std::string> checked;
  std::set<std::string> ran;
  for (const OpCase& c : all_cases()) {
    const OpDef& def = find_op(ops, c.op);
    if (def.gradient == nullptr || !c.differentiable || is_part_of_composition(c.op) ||
        !is_exact(call_of_case(ops, c))) {
      continue;
    }
    SCOPED_TRACE(describe(c));
    check_gradient(ops, c, ran);
    checked.insert(c.op);
  }
  for (const auto& [name, def] : ops) {
    if (is_part_of_composition(name)) {
      continue;
    }
    EXPECT_TRUE(def.gradient == nullptr || checked.contains(name)) << name << " was not checked";
    const bool is_gradient_op = name.ends_with("_backward") || name.ends_with("_grad");
    EXPECT_TRUE(!is_gradient_op || ran.contains(name)) << name << " is in no op's gradient";
  }
}

TEST(OpNumerics, KernelsInF32EqualThoseInF64) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  for (const OpCase& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const Tensors inputs = inputs_of_case(c);
    const OpCase narrow_case = in_f32(c);
    Tensors rounded;  // both get the numbers that f32 can hold
    Tensors narrow;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      narrow.push_back(inputs[i].to(scalar_type_of(narrow_case.inputs[i].dtype)));
      rounded.push_back(narrow.back().to(scalar_type_of(c.inputs[i].dtype)));
    }
    const Tensors expected = run_case(ops, c, rounded);
    const Tensors actual = run_case(ops, narrow_case, narrow);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_LE(relative_error(actual[i], expected[i]), 5e-6) << "output " << i;
    }
  }
}

// Sums are kept in f32, so only the rounding of what is read and written is left.
TEST(OpNumerics, KernelsInBf16EqualThoseInF64) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  std::set<std::string> ran;
  std::set<std::string> takes_numbers;  // that need not be f64
  for (const OpCase& c : all_cases()) {
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      if (ops::is_floating(c.inputs[i].dtype) && std::ranges::count(c.f64_inputs, i) == 0) {
        takes_numbers.insert(c.op);
      }
    }
    const std::optional<OpCase> low = in_bf16(ops, c);
    if (!low) {
      continue;
    }
    SCOPED_TRACE(describe(*low));
    const Tensors inputs = inputs_of_case(c);
    Tensors rounded;
    Tensors narrow;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      narrow.push_back(inputs[i].to(scalar_type_of(low->inputs[i].dtype)));
      rounded.push_back(narrow.back().to(scalar_type_of(c.inputs[i].dtype)));
    }
    const Tensors expected = run_case(ops, c, rounded);
    const Tensors actual = run_case(ops, *low, narrow);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_LE(relative_error(actual[i], expected[i]), 1e-2) << "output " << i;
    }
    ran.insert(c.op);
  }
  for (const auto& [name, def] : ops) {
    // Masters and what updates them are f32, and so are losses.
    const bool updates = (!def.aliases.empty() && def.aliases[0].in_place) ||
                         name.starts_with("adafactor") || name == "clip_scale" ||
                         name.starts_with("nll");
    EXPECT_TRUE(ran.contains(name) || updates || !takes_numbers.contains(name))
        << name << " was not run";
  }
}

TEST(OpNumerics, KernelsEqualCompositionsOfAten) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  for (const OpCase& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const Reference reference = find_reference(c.op);
    if (reference == nullptr) {
      continue;
    }
    const Tensors inputs = inputs_of_case(c);
    const Tensors expected = reference(call_of_case(ops, c), inputs);
    const Tensors actual = run_case(ops, c, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_LE(relative_error(actual[i], expected[i]), 1e-10) << "output " << i;
    }
  }
}

// The kernels of gradients have no formula here: GradientsEqualCentralDifferences runs each of
// them.
TEST(OpNumerics, EveryForwardOpHasAReference) {
  for (const auto& [name, def] : builtin_ops()) {
    const bool is_gradient_op = name.ends_with("_backward") || name.ends_with("_grad");
    EXPECT_TRUE(is_gradient_op || find_reference(name) != nullptr) << name;
  }
}

// Wide inputs reach the tails of the approximation of exp; ATen computes the same form in f64.
TEST(OpNumerics, FusedGeluHoldsInTheTails) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  const Attrs attrs{{"tanh", std::int64_t{1}}};
  const at::Tensor x = at::linspace(-60, 60, 100001, at::kFloat);
  const TensorType type{{100001}, DType::f32};
  const Tensors y = run_op(find_op(ops, "gelu"), {{type}, {type}, attrs}, {}, Tensors{x});
  EXPECT_LE(relative_error(y[0], at::gelu(x.to(at::kDouble), "tanh")), 1e-7);
  const at::Tensor small = at::linspace(-6, -1, 10001, at::kFloat);
  const TensorType small_type{{10001}, DType::f32};
  const Tensors tail =
      run_op(find_op(ops, "gelu"), {{small_type}, {small_type}, attrs}, {}, Tensors{small});
  const at::Tensor exact = at::gelu(small.to(at::kDouble), "tanh");
  EXPECT_LE(((tail[0].to(at::kDouble) - exact) / exact).abs().max().item<double>(), 3e-5);
}

}  // namespace
}  // namespace weft
