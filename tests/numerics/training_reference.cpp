// The optimizers line by line, as torch.optim and transformers write them.
#include "weft/kernels/torch_headers.h"

#include <cmath>

#include "tests/numerics/harness.h"

namespace weft {
namespace {

at::Tensor clipped(const Tensors& in, std::size_t g, std::size_t clip) {
  return in.size() > clip ? in[g] * in[clip] : in[g];
}

// torch.optim.Adam
Tensors adam(const OpCall& call, const Tensors& in) {
  const double lr = in[4].item<double>();
  const double step = in[5].item<double>();
  const double beta1 = attr_number(call.attrs, "beta1");
  const double beta2 = attr_number(call.attrs, "beta2");
  const at::Tensor g = clipped(in, 1, 6).add(in[0], attr_number(call.attrs, "weight_decay"));
  const at::Tensor m = in[2].mul(beta1).add(g, 1 - beta1);
  const at::Tensor v = in[3].mul(beta2).addcmul(g, g, 1 - beta2);
  const double step_size = lr / (1 - std::pow(beta1, step));
  const at::Tensor denominator =
      (v.sqrt() / std::sqrt(1 - std::pow(beta2, step))).add(attr_number(call.attrs, "epsilon"));
  return {in[0].addcdiv(m, denominator, -step_size), m, v};
}

// Algorithm 2 of "Symbolic discovery of optimization algorithms".
Tensors lion(const OpCall& call, const Tensors& in) {
  const double lr = in[3].item<double>();
  const double beta1 = attr_number(call.attrs, "beta1");
  const double beta2 = attr_number(call.attrs, "beta2");
  const at::Tensor g = clipped(in, 1, 4);
  const at::Tensor u = at::sign(in[2] * beta1 + g * (1 - beta1));
  const at::Tensor w = in[0] - (u + in[0] * attr_number(call.attrs, "weight_decay")) * lr;
  return {w, in[2] * beta2 + g * (1 - beta2)};
}

Tensors moment(const OpCall& call, const Tensors& in) {
  const at::Tensor squares = (clipped(in, 0, 1).square() + attr_number(call.attrs, "epsilon")) *
                             attr_number(call.attrs, "scale");
  const std::int64_t over = attr_int(call.attrs, "over");
  return {over == 0 ? squares : squares.sum(over)};
}

Tensors average(const OpCall& call, const Tensors& in) {
  const double beta = 1 - std::pow(in[2].item<double>(), -attr_number(call.attrs, "decay"));
  return {in[0].mul(beta).add(in[1], 1 - beta)};
}

Tensors row_mean(const OpCall& call, const Tensors& in) {
  return {in[0].sum(-1) * attr_number(call.attrs, "scale")};
}

// transformers' _approx_sq_grad, times the gradient.
at::Tensor direction(const OpCall& call, const Tensors& in, std::size_t g) {
  const bool factored = attr_int(call.attrs, "factored") == 1;
  const std::size_t scalars = g == 0 ? 0 : 2;  // norm and lr
  const at::Tensor gradient = clipped(in, g, g + 1 + (factored ? 3 : 1) + scalars);
  if (!factored) {
    return in[g + 1].rsqrt() * gradient;
  }
  const at::Tensor rows = (in[g + 1] / in[g + 3].unsqueeze(-1)).rsqrt().unsqueeze(-1);
  const at::Tensor columns = in[g + 2].unsqueeze(-2).rsqrt();
  return at::mul(rows, columns) * gradient;
}

Tensors norm(const OpCall& call, const Tensors& in) {
  return {direction(call, in, 0).square().sum() * attr_number(call.attrs, "scale")};
}

Tensors adafactor(const OpCall& call, const Tensors& in) {
  const std::size_t scalars = attr_int(call.attrs, "factored") == 1 ? 5 : 3;
  const double rms = std::sqrt(in[scalars].item<double>());
  const double lr = in[scalars + 1].item<double>();
  at::Tensor update =
      direction(call, in, 1) / std::max(1.0, rms / attr_number(call.attrs, "threshold"));
  update = update * lr;
  return {in[0].add(in[0], -attr_number(call.attrs, "weight_decay") * lr) - update};
}

}  // namespace

std::map<std::string, Reference> training_references() {
  return {{"adafactor", adafactor},
          {"adafactor_average", average},
          {"adafactor_moment", moment},
          {"adafactor_norm", norm},
          {"adafactor_row_mean", row_mean},
          {"adam", adam},
          {"lion", lion}};
}

void set_training_inputs(const OpCase& c, Tensors& inputs) {
  const auto set = [&](std::size_t i, double value) {
    if (i < inputs.size()) {
      inputs[i].fill_(value);
    }
  };
  if (c.op == "adam") {
    inputs[3].abs_();
    set(4, 0.05);
    set(5, 3);
    set(6, 0.25);
  } else if (c.op == "lion") {
    set(3, 0.05);
    set(4, 0.25);
  } else if (c.op == "adafactor_average") {
    set(2, 3);
  } else if (c.op == "adafactor_moment") {
    set(1, 0.25);
  } else if (c.op == "adafactor_norm" || c.op == "adafactor") {
    // Second moments are positive; behind them stand norm, lr and clip.
    const std::size_t first = c.op == "adafactor" ? 2 : 1;
    const std::size_t moments = attr_int(c.attrs, "factored") == 1 ? 3 : 1;
    for (std::size_t i = first; i < first + moments; ++i) {
      inputs[i].abs_().add_(0.1);
    }
    for (std::size_t i = first + moments; i < inputs.size(); ++i) {
      set(i, 1.5 / static_cast<double>(i - first - moments + 1));
    }
  }
}

}  // namespace weft
