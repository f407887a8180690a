// Each op's definition as a plain composition of ATen functions, in the style of the formulas in
// docs/spec/ops.md.
#include "weft/kernels/torch_headers.h"

#include <map>
#include <numeric>

#include "tests/numerics/harness.h"
#include "tests/numerics/moe_cases.h"

namespace weft {
namespace {

// Element i is the i-th number of the test's random stream.
at::Tensor uniforms(at::IntArrayRef shape) {
  const KernelEnv env = test_env();
  const RandomStream stream{env.seed, env.step, env.node};
  at::Tensor drawn = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < drawn.numel(); ++i) {
    drawn.data_ptr<double>()[i] = stream.uniform(static_cast<std::uint64_t>(i));
  }
  return drawn;
}

Tensors gelu(const OpCall& call, const Tensors& in) {
  const at::Tensor& x = in[0];
  if (attr_int(call.attrs, "tanh") == 0) {
    return {x * 0.5 * (1 + at::erf(x / std::sqrt(2.0)))};
  }
  return {0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * at::pow(x, 3))))};
}

Tensors sum_leading(const OpCall& call, const Tensors& in) {
  at::Tensor y = in[0];
  while (y.dim() > attr_int(call.attrs, "keep")) {
    y = at::sum(y, 0);
  }
  return {y};
}

Tensors split(const OpCall& call, const Tensors& in) {
  return at::split_with_sizes(in[0], attr_ints(call.attrs, "sizes"), attr_int(call.attrs, "dim"));
}

Tensors accumulate(const OpCall& call, const Tensors& in) {
  at::Tensor sum = at::zeros(in[0].sizes(), scalar_type_of(call.outputs[0].dtype));
  for (const at::Tensor& term : in) {
    sum = sum + term;
  }
  return {sum};
}

Tensors sum_squares(const OpCall&, const Tensors& in) {
  at::Tensor sum = at::zeros({}, in[0].options());
  for (const at::Tensor& x : in) {
    sum = sum + at::dot(x.flatten(), x.flatten());
  }
  return {sum};
}

Tensors clip_scale(const OpCall& call, const Tensors& in) {
  return {at::clamp_max(attr_number(call.attrs, "max_norm") / (at::sqrt(in[0]) + 1e-6), 1)};
}

// torch.optim.AdamW of one tensor, line by line.
Tensors adamw(const OpCall& call, const Tensors& in) {
  const double lr = in[4].item<double>();
  const double step = in[5].item<double>();
  const double beta1 = attr_number(call.attrs, "beta1");
  const double beta2 = attr_number(call.attrs, "beta2");
  const at::Tensor g = in.size() > 6 ? in[1] * in[6] : in[1];
  at::Tensor w = in[0].mul(1 - lr * attr_number(call.attrs, "weight_decay"));
  const at::Tensor m = in[2].mul(beta1).add(g, 1 - beta1);
  const at::Tensor v = in[3].mul(beta2).addcmul(g, g, 1 - beta2);
  const double step_size = lr / (1 - std::pow(beta1, step));
  const at::Tensor denominator =
      (v.sqrt() / std::sqrt(1 - std::pow(beta2, step))).add(attr_number(call.attrs, "epsilon"));
  return {w.addcdiv(m, denominator, -step_size), m, v};
}

// torch.optim.SGD of one tensor, with its buffer.
Tensors sgd(const OpCall& call, const Tensors& in) {
  at::Tensor g = in.size() > 4 ? in[1] * in[4] : in[1];
  g = g.add(in[0], attr_number(call.attrs, "weight_decay"));
  const double momentum = attr_number(call.attrs, "momentum");
  const at::Tensor buffer = in[2].mul(momentum).add(g);
  const bool nesterov = has_attr(call.attrs, "nesterov") && attr_int(call.attrs, "nesterov") == 1;
  const at::Tensor step = nesterov ? g.add(buffer, momentum) : buffer;
  return {in[0].add(step, -in[3].item<double>()), buffer};
}

Tensors linear(const OpCall&, const Tensors& in) {
  const at::Tensor y = at::matmul(in[0], in[1].t());
  return {in.size() > 2 ? y + in[2] : y};
}

Tensors matmul(const OpCall& call, const Tensors& in) {
  const bool a = attr_int(call.attrs, "transpose_a") == 1;
  const bool b = attr_int(call.attrs, "transpose_b") == 1;
  return {at::matmul(a ? in[0].transpose(-1, -2) : in[0], b ? in[1].transpose(-1, -2) : in[1])};
}

Tensors embedding(const OpCall& call, const Tensors& in) {
  return {at::index_select(in[0], 0, in[1].flatten()).reshape(sizes(call.outputs[0]))};
}

Tensors layer_norm(const OpCall& call, const Tensors& in) {
  const at::Tensor mean = in[0].mean(-1, true);
  const at::Tensor centred = in[0] - mean;
  const at::Tensor rstd =
      1 / at::sqrt((centred * centred).mean(-1, true) + attr_number(call.attrs, "eps"));
  return {centred * rstd * in[1] + in[2], mean.squeeze(-1), rstd.squeeze(-1)};
}

Tensors softmax(const OpCall&, const Tensors& in) {
  const at::Tensor e = at::exp(in[0] - std::get<0>(in[0].max(-1, true)));
  return {e / e.sum(-1, true)};
}

Tensors attention(const OpCall& call, const Tensors& in) {
  const at::Tensor q = in[0].transpose(1, 2);
  const at::Tensor k = in[1].transpose(1, 2);
  const at::Tensor v = in[2].transpose(1, 2);
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) * attr_number(call.attrs, "scale");
  if (attr_int(call.attrs, "causal") == 1) {
    const at::Tensor later = at::ones({q.size(2), k.size(2)}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -INFINITY);
  }
  at::Tensor p = at::softmax(scores, -1);
  if (attr_number(call.attrs, "dropout") > 0) {
    p = dropped(p, attr_number(call.attrs, "dropout"));
  }
  return {at::matmul(p, v).transpose(1, 2), at::logsumexp(scores, {-1})};
}

Tensors nll(const OpCall& call, const Tensors& in) {
  const at::Tensor used = in[2] != attr_int(call.attrs, "ignore");
  return {((in[0] - in[1]) * used).sum() * in[3]};
}

using Table = References;
using Table = std::map<std::string, Reference>;

void add_elementwise(Table& table) {
  table["relu"] = [](const OpCall&, const Tensors& in) { return Tensors{in[0] * (in[0] > 0)}; };
  table["gelu"] = gelu;
  table["add"] = [](const OpCall&, const Tensors& in) { return Tensors{in[0] + in[1]}; };
  table["mul"] = [](const OpCall&, const Tensors& in) { return Tensors{in[0] * in[1]}; };
  table["scale"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{in[0] * attr_number(call.attrs, "value")};
  };
  table["sum_leading"] = sum_leading;
  table["reshape"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{in[0].flatten().unflatten(0, sizes(call.outputs[0]))};
  };
  table["transpose"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{in[0].permute(attr_ints(call.attrs, "perm"))};
  };
  table["split"] = split;
  table["concat"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{at::cat(in, attr_int(call.attrs, "dim"))};
  };
  table["cast"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{in[0].to(scalar_type_of(call.outputs[0].dtype))};
  };
  table["dropout"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{dropped(in[0], attr_number(call.attrs, "p"))};
  };
  table["constant"] = [](const OpCall& call, const Tensors&) {
    return Tensors{at::scalar_tensor(attr_number(call.attrs, "value"), at::kDouble)};
  };
}

Table make_table() {
  Table table;
  add_elementwise(table);
  table["accumulate"] = accumulate;
  table["sum_squares"] = sum_squares;
  table["clip_scale"] = clip_scale;
  table["adamw"] = adamw;
  table["sgd"] = sgd;
  table.merge(training_references());
  table["linear"] = linear;
  table["matmul"] = matmul;
  table["embedding"] = embedding;
  table["layer_norm"] = layer_norm;
  table["softmax"] = softmax;
  table["attention"] = attention;
  table["nll"] = nll;
  add_generic_references(table);
  add_moe_references(table);
  add_vision_references(table);
  add_attention_references(table);
  return table;
}

}  // namespace

at::Tensor dropped(const at::Tensor& x, double p) {
  return at::where(uniforms(x.sizes()) >= p, x / (1 - p), at::zeros_like(x));
}

Reference find_reference(const std::string& op) {
  static const Table kTable = make_table();
  const auto it = kTable.find(op);
  return it == kTable.end() ? nullptr : it->second;
}

}  // namespace weft
