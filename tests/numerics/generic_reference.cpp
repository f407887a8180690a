// The general tensor ops as plain compositions of ATen functions.
#include "weft/kernels/torch_headers.h"

#include <cmath>
#include <map>

#include "tests/numerics/harness.h"

namespace weft {
namespace {

using Plain = at::Tensor (*)(const at::Tensor&);

const std::map<std::string, Plain>& plain_functions() {
  static const std::map<std::string, Plain> kTable = {
      {"abs", at::abs},
      {"acos", at::acos},
      {"acosh", at::acosh},
      {"asin", at::asin},
      {"asinh", at::asinh},
      {"atan", at::atan},
      {"atanh", at::atanh},
      {"ceil", at::ceil},
      {"cos", at::cos},
      {"cosh", at::cosh},
      {"erf", at::erf},
      {"exp", at::exp},
      {"expm1", at::expm1},
      {"floor", at::floor},
      {"isinf", at::isinf},
      {"isnan", at::isnan},
      {"log", at::log},
      {"log1p", at::log1p},
      {"mish", at::mish},
      {"neg", at::neg},
      {"not", at::logical_not},
      {"round", at::round},
      {"rsqrt", at::rsqrt},
      {"sigmoid", at::sigmoid},
      {"reciprocal", at::reciprocal},
      {"sign", at::sign},
      {"silu", at::silu},
      {"sin", at::sin},
      {"sinh", at::sinh},
      {"sqrt", at::sqrt},
      {"square", at::square},
      {"tan", at::tan},
      {"tanh", at::tanh},
      {"hard_swish", at::hardswish},
  };
  return kTable;
}

Tensors unary(const OpCall& call, const Tensors& in) {
  const at::Tensor& x = in[0];
  const std::string& f = attr_text(call.attrs, "function");
  const auto plain = plain_functions().find(f);
  if (plain != plain_functions().end()) {
    return {plain->second(x)};
  }
  const double alpha = attr_number(call.attrs, "alpha");
  const double beta = attr_number(call.attrs, "beta");
  if (f == "clip") {
    return {at::clamp(x, alpha, beta)};
  }
  const at::Tensor zeros = at::zeros_like(x);
  const std::map<std::string, at::Tensor> others = {
      {"celu", at::clamp_min(x, 0) + at::clamp_max(alpha * (at::exp(x / alpha) - 1), 0)},
      {"elu", at::where(x > 0, x, alpha * (at::exp(x) - 1))},
      {"selu", beta * at::where(x > 0, x, alpha * (at::exp(x) - 1))},
      {"hard_sigmoid", at::clamp(alpha * x + beta, 0, 1)},
      {"leaky_relu", at::where(x > 0, x, alpha * x)},
      {"shrink", at::where(x < -beta, x + alpha, at::where(x > beta, x - alpha, zeros))},
      {"softplus", at::log(1 + at::exp(x))},
      {"softsign", x / (1 + at::abs(x))},
      {"thresholded_relu", at::where(x > alpha, x, zeros)},
  };
  return {others.at(f)};
}

Tensors binary(const OpCall& call, const Tensors& in) {
  using Pair = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
  static const std::map<std::string, Pair> kTable = {
      {"and", [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_and(a, b); }},
      {"or", [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_or(a, b); }},
      {"xor", [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_xor(a, b); }},
      {"atan2", [](const at::Tensor& a, const at::Tensor& b) { return at::atan2(a, b); }},
      {"div", [](const at::Tensor& a, const at::Tensor& b) { return a / b; }},
      {"eq", [](const at::Tensor& a, const at::Tensor& b) { return a == b; }},
      {"ge", [](const at::Tensor& a, const at::Tensor& b) { return a >= b; }},
      {"gt", [](const at::Tensor& a, const at::Tensor& b) { return a > b; }},
      {"le", [](const at::Tensor& a, const at::Tensor& b) { return a <= b; }},
      {"lt", [](const at::Tensor& a, const at::Tensor& b) { return a < b; }},
      {"fmod", [](const at::Tensor& a, const at::Tensor& b) { return at::fmod(a, b); }},
      {"mod", [](const at::Tensor& a, const at::Tensor& b) { return at::remainder(a, b); }},
      {"max", [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); }},
      {"min", [](const at::Tensor& a, const at::Tensor& b) { return at::minimum(a, b); }},
      {"pow", [](const at::Tensor& a, const at::Tensor& b) { return at::pow(a, b); }},
      {"prelu",
       [](const at::Tensor& a, const at::Tensor& b) { return at::where(a > 0, a, a * b); }},
      {"shift_left",
       [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_left_shift(a, b); }},
      {"shift_right",
       [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_right_shift(a, b); }},
      {"sub", [](const at::Tensor& a, const at::Tensor& b) { return a - b; }},
  };
  return {kTable.at(attr_text(call.attrs, "function"))(in[0], in[1])};
}

Tensors mask(const OpCall& call, const Tensors& in) {
  const at::Tensor kept = in[1] == attr_int(call.attrs, "keep");
  return {at::where(kept, in[0], at::full_like(in[0], attr_number(call.attrs, "value")))};
}

Tensors reduce(const OpCall& call, const Tensors& in) {
  const std::string& f = attr_text(call.attrs, "function");
  at::Tensor y = in[0];
  for (std::int64_t dim : attr_ints(call.attrs, "dims")) {  // one after the other, kept
    y = f == "sum"    ? y.sum(dim, true)
        : f == "mean" ? y.mean(dim, true)
        : f == "prod" ? y.prod(dim, true)
        : f == "max"  ? y.amax(dim, true)
                      : y.amin(dim, true);
  }
  return {y.reshape(sizes(call.outputs[0]))};
}

at::Tensor indices(const at::Tensor& like, std::vector<std::int64_t> list) {
  return at::tensor(at::ArrayRef<std::int64_t>(list), like.options().dtype(at::kLong));
}

Tensors slice(const OpCall& call, const Tensors& in) {
  at::Tensor y = in[0];
  for (std::int64_t d = 0; d < y.dim(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    std::vector<std::int64_t> picked;
    for (std::int64_t i = 0; i < attr_ints(call.attrs, "sizes")[at]; ++i) {
      const std::int64_t place =
          attr_ints(call.attrs, "starts")[at] + i * attr_ints(call.attrs, "steps")[at];
      picked.push_back(place < 0 ? place + in[0].size(d) : place);
    }
    y = picked.empty() ? y : at::index_select(y, d, indices(y, picked));
  }
  return {y};
}

Tensors pad(const OpCall& call, const Tensors& in) {
  const std::string& mode = attr_text(call.attrs, "mode");
  if (mode == "constant") {
    std::vector<std::int64_t> amounts;
    for (std::int64_t d = in[0].dim() - 1; d >= 0; --d) {
      amounts.push_back(attr_ints(call.attrs, "before")[static_cast<std::size_t>(d)]);
      amounts.push_back(attr_ints(call.attrs, "after")[static_cast<std::size_t>(d)]);
    }
    return {at::constant_pad_nd(in[0], amounts, attr_number(call.attrs, "value"))};
  }
  at::Tensor y = in[0];
  for (std::int64_t d = 0; d < y.dim(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    const std::int64_t n = in[0].size(d);
    std::vector<std::int64_t> picked;
    for (std::int64_t i = -attr_ints(call.attrs, "before")[at];
         i < n + attr_ints(call.attrs, "after")[at]; ++i) {
      const std::int64_t mirrored = i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
      picked.push_back(mode == "edge" ? std::min(std::max<std::int64_t>(i, 0), n - 1) : mirrored);
    }
    y = at::index_select(y, d, indices(y, picked));
  }
  return {y};
}

Tensors gather(const OpCall& call, const Tensors& in) {
  return {at::index_select(in[0], attr_int(call.attrs, "dim"), in[1].flatten())
              .reshape(sizes(call.outputs[0]))};
}

Tensors scatter_elements(const OpCall& call, const Tensors& in) {
  const std::string& reduction = attr_text(call.attrs, "reduction");
  const std::int64_t dim = attr_int(call.attrs, "dim");
  if (reduction == "none") {
    return {at::scatter(in[0], dim, in[1], in[2])};
  }
  return {at::scatter_reduce(in[0], dim, in[1], in[2], reduction == "add" ? "sum" : "prod")};
}

// Entry by entry: views of x and of the list.
at::Tensor entry(at::Tensor x, const at::Tensor& place) {
  for (std::int64_t d = 0; d < place.numel(); ++d) {
    x = x.select(0, place.data_ptr<std::int64_t>()[d]);
  }
  return x;
}

at::Tensor gather_places(const at::Tensor& x, const at::Tensor& ids, std::int64_t shared) {
  if (ids.dim() == 1) {
    return entry(x, ids);
  }
  Tensors parts;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    parts.push_back(
        gather_places(shared > 0 ? x[i] : x, ids[i], std::max<std::int64_t>(0, shared - 1)));
  }
  return at::stack(parts);
}

Tensors scatter_nd(const OpCall& call, const Tensors& in) {
  const std::string& reduction = attr_text(call.attrs, "reduction");
  const at::Tensor y = in[0].clone();
  for (std::int64_t i = 0; i < in[1].size(0); ++i) {  // one dim of places
    at::Tensor target = entry(y, in[1][i]);
    target.copy_(reduction == "add"   ? target + in[2][i]
                 : reduction == "mul" ? target * in[2][i]
                                      : in[2][i]);
  }
  return {y};
}

Tensors arg_max(const OpCall& call, const Tensors& in) {
  const std::int64_t dim = attr_int(call.attrs, "dim");
  const bool last = attr_int(call.attrs, "last") == 1;
  at::Tensor x = attr_text(call.attrs, "function") == "max" ? in[0] : -in[0];
  x = last ? x.flip(dim) : x;
  const at::Tensor found = x.argmax(dim, attr_int(call.attrs, "keep") == 1);
  return {last ? in[0].size(dim) - 1 - found : found};
}

Tensors cumsum(const OpCall& call, const Tensors& in) {
  const std::int64_t dim = attr_int(call.attrs, "dim");
  const bool reverse = attr_int(call.attrs, "reverse") == 1;
  const at::Tensor x = reverse ? in[0].flip(dim) : in[0];
  at::Tensor y = x.cumsum(dim);
  y = attr_int(call.attrs, "exclusive") == 1 ? y - x : y;
  return {reverse ? y.flip(dim) : y};
}

Tensors one_hot(const OpCall& call, const Tensors& in) {
  const at::Tensor places = at::arange(attr_int(call.attrs, "depth"), at::kLong);
  const at::Tensor hit = in[0].unsqueeze(-1) == places;
  return {at::where(hit, attr_number(call.attrs, "on"), attr_number(call.attrs, "off"))};
}

void add_picks(References& table) {
  table["gather"] = gather;
  table["gather_elements"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{at::gather(in[0], attr_int(call.attrs, "dim"), in[1])};
  };
  table["scatter_elements"] = scatter_elements;
  table["gather_nd"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{gather_places(in[0], in[1], attr_int(call.attrs, "batch_dims"))};
  };
  table["scatter_nd"] = scatter_nd;
  table["arg_max"] = arg_max;
  table["top_k"] = [](const OpCall& call, const Tensors& in) {
    const auto [values, ids] =
        at::topk(in[0], attr_int(call.attrs, "k"), attr_int(call.attrs, "dim"),
                 attr_int(call.attrs, "largest") == 1, true);
    return Tensors{values, ids};
  };
  table["one_hot"] = one_hot;
}

}  // namespace

void add_generic_references(References& table) {
  add_picks(table);
  table["unary"] = unary;
  table["binary"] = binary;
  table["where"] = [](const OpCall&, const Tensors& in) {
    return Tensors{at::where(in[0] == 1, in[1], in[2])};
  };
  table["mask"] = mask;
  table["reduce"] = reduce;
  table["expand"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{in[0] + at::zeros(sizes(call.outputs[0]), at::kDouble)};
  };
  table["slice"] = slice;
  table["pad"] = pad;
  table["roll"] = [](const OpCall& call, const Tensors& in) {
    return Tensors{at::roll(in[0], attr_ints(call.attrs, "shifts"), attr_ints(call.attrs, "dims"))};
  };
  table["cumsum"] = cumsum;
  table["trilu"] = [](const OpCall& call, const Tensors& in) {
    const at::Tensor column = at::arange(in[0].size(-1)) - at::arange(in[0].size(-2)).unsqueeze(1);
    const std::int64_t k = attr_int(call.attrs, "k");
    return Tensors{in[0] * (attr_int(call.attrs, "upper") == 1 ? column >= k : column <= k)};
  };
  table["iota"] = [](const OpCall& call, const Tensors&) {
    return Tensors{
        (at::ones(sizes(call.outputs[0]), at::kLong)).cumsum(attr_int(call.attrs, "dim")) - 1};
  };
  table["log_softmax"] = [](const OpCall&, const Tensors& in) {
    return Tensors{in[0] - at::logsumexp(in[0], {-1}, true)};
  };
}

}  // namespace weft
