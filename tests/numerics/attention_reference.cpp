// The definitions of attention, the norms and what else blocks of transformers need, as
// compositions of ATen functions.
#include "weft/kernels/torch_headers.h"

#include "tests/numerics/harness.h"

namespace weft {
namespace {

// 1 where query i must not see key j.
at::Tensor hidden(const OpCall& call, std::int64_t s, std::int64_t t) {
  const at::Tensor i = at::arange(s).unsqueeze(1);
  const at::Tensor j = at::arange(t).unsqueeze(0);
  at::Tensor mask = at::zeros({s, t}, at::kBool);
  if (attr_int(call.attrs, "causal") == 1) {
    mask = mask | (j > i);
  }
  const std::int64_t window = has_attr(call.attrs, "window") ? attr_int(call.attrs, "window") : 0;
  return window == 0 ? mask : mask | ((i - j).abs() >= window);
}

Tensors attention(const OpCall& call, const Tensors& in) {
  const std::int64_t shared = in[0].size(2) / in[1].size(2);
  const at::Tensor q = in[0].transpose(1, 2);
  const at::Tensor k = in[1].transpose(1, 2).repeat_interleave(shared, 1);
  const at::Tensor v = in[2].transpose(1, 2).repeat_interleave(shared, 1);
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) * attr_number(call.attrs, "scale");
  if (in.size() > 3) {
    scores = scores + in[3].repeat({q.size(0) / in[3].size(0), 1, 1, 1});
  }
  scores = scores.masked_fill(hidden(call, q.size(2), k.size(2)), -INFINITY);
  at::Tensor p = at::softmax(scores, -1);
  if (attr_number(call.attrs, "dropout") > 0) {
    p = dropped(p, attr_number(call.attrs, "dropout"));
  }
  return {at::matmul(p, v).transpose(1, 2), at::logsumexp(scores, {-1})};
}

Tensors rms_norm(const OpCall& call, const Tensors& in) {
  const at::Tensor rstd =
      at::rsqrt((in[0] * in[0]).mean(-1, true) + attr_number(call.attrs, "eps"));
  return {in[0] * rstd * (in[1] + attr_number(call.attrs, "offset")), rstd.squeeze(-1)};
}

// The frequencies of pairs, written as the models' own code has them.
at::Tensor frequencies(const OpCall& call) {
  const double dims = attr_number(call.attrs, "dims");
  const at::Tensor f =
      1.0 / at::pow(attr_number(call.attrs, "base"), at::arange(0, dims, 2, at::kDouble) / dims);
  const std::string scaling =
      has_attr(call.attrs, "scaling") ? attr_text(call.attrs, "scaling") : "none";
  if (scaling == "linear") {
    return f / attr_number(call.attrs, "factor");
  }
  if (scaling == "none") {
    return f;
  }
  const at::Tensor wave = 2 * M_PI / f;
  const double low = attr_number(call.attrs, "low");
  const double high = attr_number(call.attrs, "high");
  const double original = attr_number(call.attrs, "original");
  const at::Tensor slow = f / attr_number(call.attrs, "factor");
  const at::Tensor smooth = (original / wave - low) / (high - low);
  const at::Tensor between = (1 - smooth) * slow + smooth * f;
  const at::Tensor far = at::where(wave > original / low, slow, f);
  const at::Tensor is_between = (wave <= original / low) & (wave >= original / high);
  return at::where(is_between, between, far);
}

// As complex numbers: y = x e^{i position f}.
Tensors rotary(const OpCall& call, const Tensors& in) {
  const at::Tensor& x = in[0];
  const std::int64_t dims = attr_int(call.attrs, "dims");
  const at::Tensor turned = x.narrow(-1, 0, dims);
  const bool interleaved = attr_int(call.attrs, "interleaved") == 1;
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = interleaved ? dims / 2 : 2;
  sizes.push_back(interleaved ? 2 : dims / 2);
  at::Tensor pairs = turned.reshape(sizes);
  pairs = interleaved ? pairs : pairs.transpose(-1, -2);
  const at::Tensor angle =
      at::outer(at::arange(x.size(1), at::kDouble), frequencies(call)).unsqueeze(1);
  const double sign = attr_int(call.attrs, "inverse") == 1 ? -1 : 1;
  const at::Tensor z = at::complex(pairs.select(-1, 0), pairs.select(-1, 1)) *
                       at::complex(at::cos(angle), sign * at::sin(angle));
  const at::Tensor parts = at::stack({at::real(z), at::imag(z)}, interleaved ? -1 : -2);
  return {at::cat({parts.flatten(-2), x.narrow(-1, dims, x.size(-1) - dims)}, -1)};
}

Tensors gated(const OpCall& call, const Tensors& in) {
  const at::Tensor& x = in[0];
  const std::string& function = attr_text(call.attrs, "function");
  const at::Tensor value = function == "silu"        ? at::silu(x)
                           : function == "gelu"      ? at::gelu(x)
                           : function == "gelu_tanh" ? at::gelu(x, "tanh")
                           : function == "relu"      ? at::relu(x)
                           : function == "sigmoid"   ? at::sigmoid(x)
                                                     : x;
  return {value * in[1]};
}

// lse - score is the cross entropy of a row.
Tensors label_scores(const OpCall& call, const Tensors& in) {
  const std::int64_t classes = in[0].size(-1);
  const double smoothing =
      has_attr(call.attrs, "smoothing") ? attr_number(call.attrs, "smoothing") : 0.0;
  const std::int64_t ignore = attr_int(call.attrs, "ignore");
  const at::Tensor rows = at::cross_entropy_loss(in[0].reshape({-1, classes}), in[1].flatten(), {},
                                                 at::Reduction::None, ignore, smoothing)
                              .view(in[1].sizes());
  const at::Tensor lse = at::logsumexp(in[0], {-1});
  return {lse, (lse - rows) * (in[1] != ignore)};
}

}  // namespace

void add_attention_references(std::map<std::string, Reference>& table) {
  table["attention"] = attention;
  table["label_scores"] = label_scores;
  table["gated"] = gated;
  table["rms_norm"] = rms_norm;
  table["rotary"] = rotary;
}

}  // namespace weft
