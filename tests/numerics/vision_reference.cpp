// Ops of convolutional networks through ATen's functions over [b,c,…].
#include "weft/kernels/torch_headers.h"

#include "tests/numerics/harness.h"

namespace weft {
namespace {

// [b,…,c] <-> [b,c,…]
at::Tensor channels_first(const at::Tensor& x) {
  return x.movedim(-1, 1).contiguous();
}

at::Tensor channels_last(const at::Tensor& x) {
  return x.movedim(1, -1).contiguous();
}

Ints ints(const OpCall& call, const char* name, const Ints& missing) {
  return has_attr(call.attrs, name) ? attr_ints(call.attrs, name) : missing;
}

std::int64_t integer_or_0(const OpCall& call, const char* name) {
  return has_attr(call.attrs, name) ? attr_int(call.attrs, name) : 0;
}

// (before, after) of each dim, as constant_pad_nd wants it: last dim first.
at::Tensor padded(const OpCall& call, const at::Tensor& x, double value) {
  const Ints given = ints(call, "padding", Ints(static_cast<std::size_t>(2 * (x.dim() - 2)), 0));
  Ints reversed;
  for (std::size_t d = given.size(); d >= 2; d -= 2) {
    reversed.push_back(given[d - 2]);
    reversed.push_back(given[d - 1]);
  }
  return at::constant_pad_nd(x, reversed, value);
}

Tensors conv(const OpCall& call, const Tensors& in) {
  const at::Tensor x = padded(call, channels_first(in[0]), 0);
  const Ints zeros(static_cast<std::size_t>(x.dim() - 2), 0);
  return {channels_last(
      at::convolution(x, in[1], in.size() > 2 ? c10::optional<at::Tensor>(in[2]) : c10::nullopt,
                      attr_ints(call.attrs, "stride"), zeros, attr_ints(call.attrs, "dilation"),
                      false, zeros, attr_int(call.attrs, "groups")))};
}

// Without padding, then the padding is cut off.
Tensors conv_transpose(const OpCall& call, const Tensors& in) {
  const at::Tensor x = channels_first(in[0]);
  const Ints zeros(static_cast<std::size_t>(x.dim() - 2), 0);
  at::Tensor y =
      at::convolution(x, in[1], in.size() > 2 ? c10::optional<at::Tensor>(in[2]) : c10::nullopt,
                      attr_ints(call.attrs, "stride"), zeros, attr_ints(call.attrs, "dilation"),
                      true, ints(call, "output_padding", zeros), attr_int(call.attrs, "groups"));
  const Ints& padding = attr_ints(call.attrs, "padding");
  for (std::size_t d = 0; d < zeros.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d) + 2;
    y = y.narrow(dim, padding[2 * d], y.size(dim) - padding[2 * d] - padding[2 * d + 1]);
  }
  return {channels_last(y)};
}

Tensors batch_norm_sums(const OpCall&, const Tensors& in) {
  const at::Tensor rows = in[0].reshape({-1, in[0].size(-1)});
  const at::Tensor count = at::full({rows.size(1)}, static_cast<double>(rows.size(0)), at::kDouble);
  return {rows.sum(0), (rows * rows).sum(0), count};
}

Tensors batch_norm_moments(const OpCall& call, const Tensors& in) {
  const at::Tensor mean = in[0] / in[2];
  const at::Tensor variance = in[1] / in[2] - mean * mean;
  return {mean, at::rsqrt(variance + attr_number(call.attrs, "eps")),
          variance * in[2] / (in[2] - 1)};
}

Tensors batch_norm_grad_sums(const OpCall&, const Tensors& in) {
  const at::Tensor dy = in[0].reshape({-1, in[0].size(-1)});
  const at::Tensor n = (in[1].reshape(dy.sizes()) - in[2]) * in[3];
  return {dy.sum(0), (dy * n).sum(0)};
}

Tensors batch_norm_inference(const OpCall& call, const Tensors& in) {
  return {(in[0] - in[1]) / at::sqrt(in[2] + attr_number(call.attrs, "eps")) * in[3] + in[4]};
}

Tensors group_norm(const OpCall& call, const Tensors& in) {
  const std::int64_t groups = attr_int(call.attrs, "groups");
  const double eps = attr_number(call.attrs, "eps");
  const at::Tensor x = channels_first(in[0]);
  const at::Tensor runs = x.reshape({x.size(0), groups, -1});
  return {channels_last(at::group_norm(x, groups, in[1], in[2], eps)), runs.mean(-1),
          at::rsqrt(runs.var(-1, false) + eps)};
}

// Windows that reach beyond the padding see only what there is: `fill` stands for it.
at::Tensor for_ceil(const OpCall& call, const at::Tensor& x, double fill) {
  const Ints& kernel = attr_ints(call.attrs, "kernel");
  const Ints stride = ints(call, "stride", Ints(kernel.size(), 1));
  const Ints dilation = ints(call, "dilation", Ints(kernel.size(), 1));
  Ints behind;
  for (std::size_t d = kernel.size(); d-- > 0;) {
    const std::int64_t out = call.outputs[0].size(static_cast<int>(d) + 1);
    const std::int64_t needed = (out - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1;
    const std::int64_t has = x.size(static_cast<std::int64_t>(d) + 2);
    behind.push_back(0);
    behind.push_back(std::max<std::int64_t>(0, needed - has));
  }
  return at::constant_pad_nd(x, behind, fill);
}

// [b, c, outputs…, taps…]
at::Tensor windows(const OpCall& call, at::Tensor x) {
  const Ints& kernel = attr_ints(call.attrs, "kernel");
  const Ints stride = ints(call, "stride", Ints(kernel.size(), 1));
  const Ints dilation = ints(call, "dilation", Ints(kernel.size(), 1));
  for (std::size_t d = 0; d < kernel.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d) + 2;
    x = x.unfold(dim, dilation[d] * (kernel[d] - 1) + 1, stride[d]);
    x = x.slice(-1, 0, c10::nullopt, dilation[d]);
  }
  for (std::size_t d = 0; d < kernel.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d) + 2;
    x = x.narrow(dim, 0, call.outputs[0].size(static_cast<int>(d) + 1));
  }
  return x.flatten(-static_cast<std::int64_t>(kernel.size()));
}

Tensors max_pool(const OpCall& call, const Tensors& in) {
  const at::Tensor x = for_ceil(call, padded(call, channels_first(in[0]), -INFINITY), -INFINITY);
  return {channels_last(std::get<0>(windows(call, x).max(-1)))};
}

Tensors avg_pool(const OpCall& call, const Tensors& in) {
  const at::Tensor x = channels_first(in[0]);
  const double padding_counts = integer_or_0(call, "count_include_pad") == 1 ? 1 : 0;
  const at::Tensor places = for_ceil(call, padded(call, at::ones_like(x), padding_counts), 0);
  const at::Tensor sums = windows(call, for_ceil(call, padded(call, x, 0), 0)).sum(-1);
  return {channels_last(sums / windows(call, places).sum(-1))};
}

Tensors upsample(const OpCall& call, const Tensors& in) {
  const Ints& scale = attr_ints(call.attrs, "scale");
  at::Tensor y = in[0];
  for (std::size_t d = 0; d < scale.size(); ++d) {
    y = y.repeat_interleave(scale[d], static_cast<std::int64_t>(d) + 1);
  }
  return {y};
}

}  // namespace

void add_vision_references(References& table) {
  table["conv"] = conv;
  table["conv_transpose"] = conv_transpose;
  table["batch_norm_sums"] = batch_norm_sums;
  table["batch_norm_moments"] = batch_norm_moments;
  table["batch_norm"] = [](const OpCall&, const Tensors& in) {
    return Tensors{(in[0] - in[1]) * in[2] * in[4] + in[5]};
  };
  table["batch_norm_grad_sums"] = batch_norm_grad_sums;
  table["batch_norm_inference"] = batch_norm_inference;
  table["ema"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{in[0] + attr_number(call.attrs, "momentum") * (in[1] - in[0])};
  };
  table["group_norm"] = group_norm;
  table["max_pool"] = max_pool;
  table["avg_pool"] = avg_pool;
  table["upsample"] = upsample;
}

}  // namespace weft
