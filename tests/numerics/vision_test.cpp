// What the cases of single ops cannot show: batch norm as three nodes, convolutions of several
// blocks, and bf16.
#include "weft/kernels/torch_headers.h"

#include <gtest/gtest.h>

#include "tests/numerics/harness.h"
#include "weft/ops/builder.h"

namespace weft {
namespace {

constexpr double kEps = 1e-3;

// Values of a graph whose first values are its inputs.
Tensors run_graph(const OpTable& ops, const Graph& graph, const Tensors& inputs) {
  Tensors values = inputs;
  values.resize(graph.values.size());
  for (const Node& node : graph.nodes) {
    Tensors in;
    for (const ValueId id : node.inputs) {
      in.push_back(values[static_cast<std::size_t>(id)]);
    }
    const Tensors out = run_op(find_op(ops, node.op), call_of(graph, node), test_env(), in);
    for (std::size_t i = 0; i < out.size(); ++i) {
      values[static_cast<std::size_t>(node.outputs[i])] = out[i];
    }
  }
  return values;
}

// x, w, b, dy -> y and gradients
struct BatchNorm {
  Graph graph;
  std::vector<ValueId> moments;
  ValueId y = -1;
  std::vector<ValueId> grads;  // of x, mean, rstd, count, w, b
};

BatchNorm batch_norm(const OpTable& ops, const TensorType& x, DType dtype) {
  BatchNorm n;
  Builder build(n.graph, ops);
  const TensorType channels{{x.shape.back()}, dtype};
  const ValueId in = build.input("x", x);
  const ValueId w = build.input("w", channels);
  const ValueId b = build.input("b", channels);
  const ValueId dy = build.input("dy", x);
  const std::vector<ValueId> sums = build.emit_all("batch_norm_sums", {in});
  n.moments = build.emit_all("batch_norm_moments", sums,
                             {{"eps", kEps}, {"dtype", std::string(dtype_name(dtype))}});
  n.y = build.emit("batch_norm", {in, n.moments[0], n.moments[1], sums[2], w, b});
  const Node node = n.graph.nodes.back();
  n.grads = find_op(ops, "batch_norm")
                .gradient({.build = build,
                           .node = node,
                           .inputs = node.inputs,
                           .outputs = node.outputs,
                           .output_grads = {dy},
                           .wanted = std::vector<bool>(6, true)});
  return n;
}

at::Tensor value(const Tensors& values, ValueId id) {
  return values[static_cast<std::size_t>(id)];
}

double loss(const OpTable& ops, const BatchNorm& n, const Tensors& inputs) {
  return (value(run_graph(ops, n.graph, inputs), n.y) * inputs[3]).sum().item<double>();
}

TEST(BatchNorm, WholeGradientEqualsCentralDifferences) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  const TensorType x{{2, 2, 3, 5}, DType::f64};
  const TensorType c{{5}, DType::f64};
  const BatchNorm n = batch_norm(ops, x, DType::f64);
  Tensors inputs = {random_tensor(x, 1), random_tensor(c, 2), random_tensor(c, 3),
                    random_tensor(x, 4)};
  const Tensors values = run_graph(ops, n.graph, inputs);
  const std::vector<std::pair<int, ValueId>> pairs = {
      {0, n.grads[0]}, {1, n.grads[4]}, {2, n.grads[5]}};
  for (const auto& [input, grad] : pairs) {
    at::Tensor& moved = inputs[static_cast<std::size_t>(input)];
    at::Tensor expected = at::empty_like(moved);
    for (std::int64_t i = 0; i < moved.numel(); ++i) {
      double& entry = moved.data_ptr<double>()[i];
      const double old = entry;
      entry = old + 1e-5;
      const double above = loss(ops, n, inputs);
      entry = old - 1e-5;
      const double below = loss(ops, n, inputs);
      entry = old;
      expected.data_ptr<double>()[i] = (above - below) / 2e-5;
    }
    EXPECT_LE(relative_error(value(values, grad), expected), 1e-6) << "input " << input;
  }
  for (const int statistic : {1, 2, 3}) {
    EXPECT_EQ(n.grads[static_cast<std::size_t>(statistic)], -1);
  }
}

// A mean of 30 standard deviations: sums of squares in f32 would lose the variance.
TEST(BatchNorm, EqualsAtenInTraining) {
  const Threads two(2);
  const OpTable ops = builtin_ops();
  for (const DType dtype : {DType::f64, DType::f32}) {
    const TensorType x{{4, 9, 9, 19}, dtype};
    const TensorType c{{19}, dtype};
    const BatchNorm n = batch_norm(ops, x, dtype);
    const Tensors in = {random_tensor(x, 1) + 30, random_tensor(c, 2), random_tensor(c, 3),
                        random_tensor(x, 4)};
    const Tensors values = run_graph(ops, n.graph, in);
    const at::Tensor wide = in[0].to(at::kDouble).movedim(-1, 1).contiguous();
    const at::Tensor dy = in[3].to(at::kDouble).movedim(-1, 1).contiguous();
    const at::Tensor w = in[1].to(at::kDouble);
    const auto [y, mean, rstd] =
        at::native_batch_norm(wide, w, in[2].to(at::kDouble), {}, {}, true, 0.1, kEps);
    const auto [dx, dw, db] = at::native_batch_norm_backward(dy, wide, w, {}, {}, mean, rstd, true,
                                                             kEps, {true, true, true});
    const double limit = dtype == DType::f64 ? 1e-10 : 2e-5;
    EXPECT_LE(relative_error(value(values, n.y), y.movedim(1, -1)), limit);
    EXPECT_LE(relative_error(value(values, n.grads[0]), dx.movedim(1, -1)), limit);
    EXPECT_LE(relative_error(value(values, n.grads[4]), dw), limit);
    EXPECT_LE(relative_error(value(values, n.grads[5]), db), limit);
    const at::Tensor variance = wide.transpose(0, 1).flatten(1).var(-1, true);
    EXPECT_LE(relative_error(value(values, n.moments[2]), variance), limit);
  }
}

// ---- convolutions
// --------------------------------------------------------------------------------

struct ConvTensors {
  Attrs attrs;
  at::Tensor x;
  at::Tensor w;
  at::Tensor b;
};

at::Tensor run_conv(const OpTable& ops, const std::string& op, const Attrs& attrs,
                    const Tensors& inputs) {
  OpCall call{.inputs = {}, .outputs = {}, .attrs = attrs};
  for (const at::Tensor& tensor : inputs) {
    TensorType type{{}, dtype_of(tensor.scalar_type())};
    for (const std::int64_t size : tensor.sizes()) {
      type.shape.emplace_back(size);
    }
    call.inputs.push_back(type);
  }
  call.outputs = find_op(ops, op).infer(call);
  return run_op(find_op(ops, op), call, test_env(), inputs)[0];
}

// Forward and both gradients in the dtype of x against ATen's in f64.
void expect_conv(const ConvTensors& t, double limit) {
  const OpTable ops = builtin_ops();
  const at::Tensor y = run_conv(ops, "conv", t.attrs, {t.x, t.w, t.b});
  const Ints& padding = attr_ints(t.attrs, "padding");
  const Ints before{padding[0], padding[2]};
  const Ints& stride = attr_ints(t.attrs, "stride");
  const Ints& dilation = attr_ints(t.attrs, "dilation");
  const std::int64_t groups = attr_int(t.attrs, "groups");
  const at::Tensor x = t.x.to(at::kDouble).movedim(-1, 1);
  const at::Tensor w = t.w.to(at::kDouble);
  const at::Tensor expected = at::convolution(x, w, t.b.to(at::kDouble), stride, before, dilation,
                                              false, Ints{0, 0}, groups);
  EXPECT_LE(relative_error(y, expected.movedim(1, -1)), limit) << "y";
  const at::Tensor dy = y.mul(0.5).contiguous();
  const auto [dx, dw, db] = at::convolution_backward(
      dy.to(at::kDouble).movedim(-1, 1).contiguous(), x, w, c10::nullopt, stride, before, dilation,
      false, Ints{0, 0}, groups, {true, true, false});
  Attrs attrs = t.attrs;
  attrs["sizes"] = Ints{t.x.size(1), t.x.size(2)};
  EXPECT_LE(relative_error(run_conv(ops, "conv_input_grad", attrs, {dy, t.w}), dx.movedim(1, -1)),
            limit)
      << "dx";
  attrs["kernel"] = Ints{t.w.size(2), t.w.size(3)};
  EXPECT_LE(relative_error(run_conv(ops, "conv_weight_grad", attrs, {dy, t.x}), dw), limit) << "dw";
}

ConvTensors conv_tensors(Shape x, Shape w, std::int64_t stride, std::int64_t groups, DType dtype) {
  const std::int64_t pad = w[2].size / 2;
  ConvTensors t;
  t.attrs = {{"stride", Ints{stride, stride}},
             {"padding", Ints{pad, pad, pad, pad}},
             {"dilation", Ints{1, 1}},
             {"groups", groups}};
  const Shape bias{w[0]};
  t.x = random_tensor({std::move(x), dtype}, 1);
  t.w = random_tensor({std::move(w), dtype}, 2);
  t.b = random_tensor({bias, dtype}, 3);
  return t;
}

TEST(Conv, SeveralBlocksOfRows) {
  for (const int threads : {1, 2}) {
    const Threads some(threads);
    expect_conv(conv_tensors({3, 20, 20, 130}, {20, 130, 3, 3}, 1, 1, DType::f32), 1e-5);
    expect_conv(conv_tensors({3, 33, 31, 128}, {16, 128, 3, 3}, 2, 1, DType::f32), 1e-5);
    expect_conv(conv_tensors({2, 17, 17, 256}, {32, 64, 3, 3}, 1, 4, DType::f32), 1e-5);
    expect_conv(conv_tensors({2, 17, 17, 70}, {70, 1, 5, 5}, 2, 70, DType::f32), 1e-5);
    expect_conv(conv_tensors({1, 4, 4, 64}, {300, 64, 3, 3}, 1, 1, DType::f32), 1e-5);
  }
}

TEST(Conv, HalfPrecisionIsComputedInF32) {
  const Threads one(1);
  expect_conv(conv_tensors({2, 9, 9, 12}, {16, 12, 3, 3}, 2, 1, DType::bf16), 6e-3);
  expect_conv(conv_tensors({2, 9, 9, 12}, {16, 12, 1, 1}, 1, 1, DType::bf16), 6e-3);
  expect_conv(conv_tensors({2, 9, 9, 12}, {12, 1, 3, 3}, 1, 12, DType::bf16), 6e-3);
}

// Every op in bf16 is near itself in f64 on the same numbers.
TEST(VisionOps, RunInHalfPrecision) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  for (const OpCase& whole : vision_cases()) {
    if (whole.op == "ema" || whole.op == "batch_norm_moments") {
      continue;  // statistics are f32 at least
    }
    OpCase c = whole;
    for (TensorType& type : c.inputs) {
      type = bind(type, 4);
    }
    SCOPED_TRACE(describe(c));
    OpCase low = c;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const bool image = c.inputs[i].rank() > 2 || c.op.starts_with("conv") || i == 0;
      const bool is_x = image || c.inputs[i] == c.inputs[0];
      low.inputs[i].dtype = is_x ? DType::bf16 : DType::f32;
    }
    for (const std::size_t i : c.f64_inputs) {
      low.inputs[i].dtype = DType::f64;
    }
    Tensors narrow;
    Tensors same;
    const Tensors inputs = inputs_of_case(c);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      narrow.push_back(inputs[i].to(scalar_type_of(low.inputs[i].dtype)));
      same.push_back(narrow.back().to(at::kDouble));
    }
    const Tensors actual = run_case(ops, low, narrow);
    const Tensors expected = run_case(ops, c, same);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_LE(relative_error(actual[i], expected[i]), 6e-3) << "output " << i;
    }
  }
}

}  // namespace
}  // namespace weft
