#include "weft/frontend/network.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/ops/cross_entropy.h"

namespace weft {

namespace {

Attrs hint(Parallel parallel) {
  switch (parallel) {
    case Parallel::none:
      return {};
    case Parallel::column:
      return {{"parallel", std::string("column")}};
    case Parallel::row:
      return {{"parallel", std::string("row")}};
    case Parallel::vocabulary:
      return {{"parallel", std::string("vocabulary")}};
  }
  fail_check("known Parallel", __FILE__, __LINE__);
}

Ints sizes_of(const Shape& shape) {
  Ints sizes;
  for (const Dim dim : shape) {
    WEFT_CHECK(!dim.batched);
    sizes.push_back(dim.size);
  }
  return sizes;
}

}  // namespace

void Network::layer(const std::string& name, std::string prefix) {
  layer_ = name;
  prefix_ = std::move(prefix);
  build_.set_scope(name);
}

std::int64_t Network::features(ValueId value) const {
  const Dim last = shape(value).back();
  WEFT_CHECK(!last.batched);
  return last.size;
}

std::string Network::path(const std::string& name) const {
  return layer_.empty() ? name : layer_ + "/" + name;
}

ValueId Network::ids(const std::string& name, Shape shape) {
  return build_.input(name, {std::move(shape), DType::i64});
}

ValueId Network::samples(const std::string& name, Shape shape) {
  return build_.input(name, {std::move(shape), dtype_});
}

ValueId Network::unstored(const std::string& name, Shape shape, Init init, bool trained) {
  const ValueId value = build_.parameter(path(name), {std::move(shape), dtype_}, init);
  build_.graph().values[value].trained = trained;
  return value;
}

ValueId Network::parameter(const std::string& name, Shape shape, Init init, bool trained) {
  const Ints sizes = sizes_of(shape);
  const Ints origin(sizes.size(), 0);
  store({.parameter = path(name),
         .offset = origin,
         .size = sizes,
         .tensor = prefix_ + name,
         .tensor_shape = sizes,
         .tensor_offset = origin});
  return unstored(name, std::move(shape), init, trained);
}

// ---- layers

ValueId Network::embedding(ValueId ids, const std::string& name, std::int64_t rows,
                           std::int64_t features, double std_dev) {
  const ValueId table = parameter(name + ".weight", {rows, features},
                                  {.kind = Init::Kind::normal, .std_dev = std_dev});
  return build_.emit("embedding", {table, ids}, {}, name);
}

ValueId Network::lookup(ValueId table, ValueId tokens, const std::string& name) {
  return build_.emit("embedding", {table, tokens}, hint(Parallel::vocabulary), name);
}

ValueId Network::linear(ValueId x, const std::string& name, const LinearOptions& options) {
  const ValueId weight = parameter(name + ".weight", {options.to, features(x)},
                                   {.kind = Init::Kind::normal, .std_dev = options.std_dev});
  const ValueId bias = options.bias ? parameter(name + ".bias", {options.to}, {}) : -1;
  return linear_with(x, weight, bias, name, options.parallel);
}

ValueId Network::linear_with(ValueId x, ValueId weight, ValueId bias, const std::string& name,
                             Parallel parallel) {
  if (bias < 0) {
    return build_.emit("linear", {x, weight}, hint(parallel), name);
  }
  if (parallel == Parallel::row) {
    const ValueId sum = build_.emit("linear", {x, weight}, hint(parallel), name);
    return add(sum, bias, name + "_bias");
  }
  return build_.emit("linear", {x, weight, bias}, hint(parallel), name);
}

ValueId Network::layer_norm(ValueId x, const std::string& name, double eps) {
  const ValueId weight = parameter(name + ".weight", {features(x)}, {.kind = Init::Kind::ones});
  const ValueId bias = parameter(name + ".bias", {features(x)}, {});
  return build_.emit("layer_norm", {x, weight, bias}, {{"eps", eps}}, name);
}

ValueId Network::rms_norm(ValueId x, const std::string& name, double eps) {
  const ValueId weight = parameter(name + ".weight", {features(x)}, {.kind = Init::Kind::ones});
  return build_.emit("rms_norm", {x, weight}, {{"eps", eps}, {"offset", std::int64_t{0}}}, name);
}

ValueId Network::add_positions(ValueId x, const std::string& name, std::int64_t positions,
                               std::int64_t begin) {
  const ValueId table = parameter(name + ".weight", {positions, features(x)},
                                  {.kind = Init::Kind::normal, .std_dev = 0.02});
  return add(x, rows(table, begin, shape(x)[1].size, name + ".rows"), name);
}

ValueId Network::attention(ValueId q, ValueId k, ValueId v, ValueId bias, const std::string& name,
                           const AttentionOptions& options) {
  const double scale =
      options.scale > 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(features(q)));
  std::vector<ValueId> inputs = {q, k, v};
  if (bias >= 0) {
    inputs.push_back(bias);
  }
  return build_.emit("attention", inputs,
                     {{"causal", std::int64_t{options.causal ? 1 : 0}},
                      {"scale", scale},
                      {"dropout", options.dropout},
                      {"window", options.window}},
                     name);
}

ValueId Network::activation(ValueId x, std::string_view function, const std::string& name) {
  if (function == "relu") {
    return build_.emit("relu", {x}, {}, name);
  }
  if (function == "gelu" || function == "gelu_tanh") {
    return build_.emit("gelu", {x}, {{"tanh", std::int64_t{function == "gelu" ? 0 : 1}}}, name);
  }
  return build_.emit("unary", {x}, {{"function", std::string(function)}}, name);
}

ValueId Network::dropout(ValueId x, double p, const std::string& name) {
  return p > 0 ? build_.emit("dropout", {x}, {{"p", p}}, name) : x;
}

ValueId Network::conv(ValueId x, const std::string& name, const ConvOptions& o) {
  const std::int64_t from = features(x) / o.groups;
  // He et al.: keeps the variance of gradients through relu (torchvision's mode fan_out).
  const double std_dev = std::sqrt(2.0 * static_cast<double>(o.groups) /
                                   static_cast<double>(o.to * o.kernel * o.kernel));
  const ValueId weight = parameter(name + ".weight", {o.to, from, o.kernel, o.kernel},
                                   {.kind = Init::Kind::normal, .std_dev = std_dev});
  const ValueId bias = o.bias ? parameter(name + ".bias", {o.to}, {}) : -1;
  Attrs attrs = hint(o.parallel);
  attrs.emplace("stride", Ints{o.stride, o.stride});
  attrs.emplace("padding", Ints{o.padding, o.padding, o.padding, o.padding});
  attrs.emplace("dilation", Ints{1, 1});
  attrs.emplace("groups", o.groups);
  if (bias < 0 || o.parallel == Parallel::row) {
    const ValueId y = build_.emit("conv", {x, weight}, attrs, name);
    return bias < 0 ? y : add(y, bias, name + "_bias");
  }
  return build_.emit("conv", {x, weight, bias}, attrs, name);
}

ValueId Network::max_pool(ValueId x, const std::string& name, const PoolOptions& o) {
  return build_.emit("max_pool", {x},
                     {{"kernel", Ints{o.kernel, o.kernel}},
                      {"stride", Ints{o.stride, o.stride}},
                      {"padding", Ints{o.padding, o.padding, o.padding, o.padding}},
                      {"dilation", Ints{1, 1}},
                      {"ceil", std::int64_t{0}}},
                     name);
}

ValueId Network::group_norm(ValueId x, const std::string& name, std::int64_t groups, double eps) {
  const ValueId weight = parameter(name + ".weight", {features(x)}, {.kind = Init::Kind::ones});
  const ValueId bias = parameter(name + ".bias", {features(x)}, {});
  return build_.emit("group_norm", {x, weight, bias}, {{"groups", groups}, {"eps", eps}}, name);
}

// Statistics are sums over all rows of the micro-batch, on whatever devices they lie; the running
// ones take the mean over the micro-batches of a step, weighted by their samples.
ValueId Network::batch_norm(ValueId x, const std::string& name, double eps, double momentum) {
  const Shape c = {features(x)};
  const ValueId weight = parameter(name + ".weight", c, {.kind = Init::Kind::ones});
  const ValueId bias = parameter(name + ".bias", c, {});
  const std::vector<ValueId> sums = build_.emit_all("batch_norm_sums", {x}, {}, name + ".sums");
  const std::vector<ValueId> moments = build_.emit_all(
      "batch_norm_moments", sums,
      {{"eps", eps}, {"dtype", std::string(dtype_name(loss_dtype(dtype_)))}}, name + ".moments");
  const ValueId y =
      build_.emit("batch_norm", {x, moments[0], moments[1], sums[2], weight, bias}, {}, name);
  const auto keep_running = [&](const std::string& what, ValueId statistic, Init init) {
    const ValueId old = running(name + "." + what, c, init);
    const ValueId share = mul(statistic, sample_share(), name + "." + what + ".share");
    const std::string dtype(dtype_name(build_.type(share).dtype));
    const ValueId mean =
        build_.emit("accumulate", {share}, {{"dtype", dtype}}, name + "." + what + ".mean");
    build_.set_role(Role::update);
    const ValueId now =
        build_.emit("ema", {old, mean}, {{"momentum", momentum}}, name + "." + what + ".next");
    build_.set_role(Role::forward);
    build_.graph().next.push_back({old, now});
  };
  keep_running("running_mean", moments[0], {});
  keep_running("running_var", moments[2], {.kind = Init::Kind::ones});
  counts_.push_back(prefix_ + name + ".num_batches_tracked");
  return y;
}

// Statistics are kept in the dtype of sums, whatever the model's.
ValueId Network::running(const std::string& name, const Shape& shape, Init init) {
  const ValueId value = parameter(name, shape, init, false);
  build_.graph().values[value].type.dtype = loss_dtype(dtype_);
  return value;
}

// ---- plain ops

ValueId Network::add(ValueId a, ValueId b, const std::string& name) {
  return build_.emit("add", {a, b}, {}, name);
}

ValueId Network::mul(ValueId a, ValueId b, const std::string& name) {
  return build_.emit("mul", {a, b}, {}, name);
}

ValueId Network::reshape(ValueId x, const Shape& to, const std::string& name) {
  const std::string text = format_shape(to);
  return build_.emit("reshape", {x}, {{"shape", text.substr(1, text.size() - 2)}}, name);
}

ValueId Network::transpose(ValueId x, Ints perm, const std::string& name) {
  return build_.emit("transpose", {x}, {{"perm", std::move(perm)}}, name);
}

ValueId Network::expand(ValueId x, const Shape& to, const std::string& name) {
  const std::string text = format_shape(to);
  return build_.emit("expand", {x}, {{"shape", text.substr(1, text.size() - 2)}}, name);
}

ValueId Network::concat(std::vector<ValueId> parts, std::int64_t dim, const std::string& name) {
  return build_.emit("concat", std::move(parts), {{"dim", dim}}, name);
}

ValueId Network::mean(ValueId x, Ints dims, const std::string& name) {
  return build_.emit(
      "reduce", {x},
      {{"function", std::string("mean")}, {"dims", std::move(dims)}, {"keep", std::int64_t{0}}},
      name);
}

ValueId Network::rows(ValueId x, std::int64_t begin, std::int64_t count, const std::string& name) {
  const Shape& whole = shape(x);
  if (begin == 0 && whole[0] == Dim(count)) {
    return x;
  }
  return build_.emit(
      "slice", {x},
      {{"starts", Ints{begin, 0}}, {"sizes", Ints{count, whole[1].size}}, {"steps", Ints{1, 1}}},
      name);
}

ValueId Network::split_heads(ValueId x, std::int64_t heads, const std::string& name) {
  Shape to = shape(x);
  const std::int64_t all = to.back().size;
  WEFT_CHECK(all % heads == 0);
  to.back() = heads;
  to.emplace_back(all / heads);
  return reshape(x, to, name);
}

ValueId Network::join_heads(ValueId x, const std::string& name) {
  Shape to = shape(x);
  const Dim last = to.back();
  to.pop_back();
  to.back() = to.back() * last;
  return reshape(x, to, name);
}

// ---- losses

ValueId Network::sample_share() {
  if (share_ < 0) {
    share_ = build_.input("sample_share", {{}, loss_dtype(dtype_)});
  }
  return share_;
}

ValueId Network::cross_entropy(ValueId logits) {
  Shape rows = shape(logits);
  rows.pop_back();
  const ValueId labels = ids("labels", rows);
  const ValueId inv_count = build_.input("inv_count", {{}, loss_dtype(dtype_)});
  return ops::cross_entropy(build_, logits, labels, inv_count, "loss");
}

ValueId Network::squared_error(ValueId x) {
  const ValueId targets = samples("targets", shape(x));
  const ValueId inv_count = build_.input("inv_count", {{}, loss_dtype(dtype_)});
  ValueId error = build_.emit("binary", {x, targets}, {{"function", std::string("sub")}}, "error");
  if (loss_dtype(dtype_) != dtype_) {
    error = build_.emit("cast", {error}, {{"dtype", std::string(dtype_name(loss_dtype(dtype_)))}},
                        "error_wide");
  }
  Ints all;
  for (std::size_t d = 0; d < shape(x).size(); ++d) {
    all.push_back(static_cast<std::int64_t>(d));
  }
  const ValueId sum = build_.emit(
      "reduce", {mul(error, error, "squares")},
      {{"function", std::string("sum")}, {"dims", all}, {"keep", std::int64_t{0}}}, "sum");
  return mul(sum, inv_count, "loss");
}

}  // namespace weft
