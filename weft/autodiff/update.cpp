// A parameter of 16 bits cannot take steps smaller than its last bit, so the optimizer keeps a copy
// of 32 bits (the master), updates that and rounds it to the parameter.
#include "weft/autodiff/update.h"

#include <fmt/ranges.h>

#include "weft/base/error.h"

namespace weft {

namespace {

/// What all update nodes share.
struct Shared {
  ValueId lr = -1;
  ValueId step = -1;
  ValueId clip = -1;
};

void check(const OptimizerSpec& spec) {
  const std::vector<std::string> found = violations(spec);
  require(found.empty(), "{}", fmt::join(found, "\n"));
}

ValueId clip_factor(Builder& build, const std::vector<ParameterGradient>& gradients, double limit) {
  std::vector<ValueId> all;
  for (const ParameterGradient& g : gradients) {
    all.push_back(g.gradient);
  }
  build.set_scope("update");
  const ValueId norm = build.emit("sum_squares", all);
  return build.emit("clip_scale", {norm}, {{"max_norm", limit}});
}

class ParameterUpdate {
 public:
  ParameterUpdate(Builder& build, const ParameterGradient& g)
      : build_(build), gradient_(g), name_(build.graph().values[g.parameter].name) {
    build_.set_scope(scope_for(name_, "update"));
  }

  void append(const OptimizerSpec& spec, const Shared& shared) {
    const DType dtype = build_.type(gradient_.parameter).dtype;
    const bool has_master = wide_dtype(dtype) != dtype;
    const ValueId weight =
        has_master ? state("master", {.kind = Init::Kind::copy}) : gradient_.parameter;
    const ValueId updated = update(weight, spec, shared);
    next(weight, updated);
    if (has_master) {
      next(gradient_.parameter,
           build_.emit("cast", {updated}, {{"dtype", std::string(dtype_name(dtype))}}));
    }
  }

 private:
  ValueId state(const std::string& what, Init init) {
    TensorType type = build_.type(gradient_.parameter);
    type.dtype = wide_dtype(type.dtype);
    return build_.state(name_ + "." + what, type, gradient_.parameter, init);
  }

  void next(ValueId before, ValueId after) { build_.graph().next.push_back({before, after}); }

  ValueId update(ValueId weight, const OptimizerSpec& spec, const Shared& shared) {
    if (spec.name == "adamw" || spec.name == "adam") {
      return with_moments(weight, {"m", "v"}, {shared.lr, shared.step}, shared.clip, spec.name,
                          {{"beta1", spec.beta1},
                           {"beta2", spec.beta2},
                           {"epsilon", spec.epsilon},
                           {"weight_decay", spec.weight_decay}});
    }
    if (spec.name == "lion") {
      return with_moments(
          weight, {"m"}, {shared.lr}, shared.clip, spec.name,
          {{"beta1", spec.beta1}, {"beta2", spec.beta2}, {"weight_decay", spec.weight_decay}});
    }
    if (spec.name == "sgd") {
      return with_moments(weight, {"momentum"}, {shared.lr}, shared.clip, spec.name,
                          {{"momentum", spec.momentum},
                           {"weight_decay", spec.weight_decay},
                           {"nesterov", std::int64_t{spec.nesterov ? 1 : 0}}});
    }
    return adafactor(weight, spec, shared);
  }

  /// An op of (weight, gradient, states of the weight's shape, scalars, clip?) that gives the next
  /// weight and states.
  ValueId with_moments(ValueId weight, const std::vector<std::string>& names,
                       const std::vector<ValueId>& scalars, ValueId clip, const std::string& op,
                       Attrs attrs) {
    std::vector<ValueId> inputs = {weight, gradient_.gradient};
    for (const std::string& name : names) {
      inputs.push_back(state(name, {}));
    }
    inputs.insert(inputs.end(), scalars.begin(), scalars.end());
    add_clip(inputs, clip);
    const std::vector<ValueId> out = build_.emit_all(op, inputs, std::move(attrs));
    for (std::size_t i = 0; i < names.size(); ++i) {
      next(inputs[2 + i], out[1 + i]);
    }
    return out[0];
  }

  static void add_clip(std::vector<ValueId>& inputs, ValueId clip) {
    if (clip >= 0) {
      inputs.push_back(clip);
    }
  }

  // See ops/adafactor.cpp.
  ValueId adafactor(ValueId weight, const OptimizerSpec& spec, const Shared& shared) {
    const TensorType type = build_.type(gradient_.gradient);
    const bool factored = type.rank() >= 2;
    std::vector<ValueId> second;
    if (factored) {
      second = {averaged("rows", -1, spec, shared), averaged("columns", -2, spec, shared)};
      second.push_back(build_.emit("adafactor_row_mean", {second[0]},
                                   {{"scale", 1.0 / static_cast<double>(type.size(-2))}}));
    } else {
      second = {averaged("v", 0, spec, shared)};
    }
    const Attr is_factored = std::int64_t{factored ? 1 : 0};
    std::vector<ValueId> inputs = {gradient_.gradient};
    inputs.insert(inputs.end(), second.begin(), second.end());
    add_clip(inputs, shared.clip);
    const ValueId norm = build_.emit(
        "adafactor_norm", inputs,
        {{"factored", is_factored}, {"scale", 1.0 / static_cast<double>(type.elements())}});
    inputs = {weight, gradient_.gradient};
    inputs.insert(inputs.end(), second.begin(), second.end());
    inputs.insert(inputs.end(), {norm, shared.lr});
    add_clip(inputs, shared.clip);
    return build_.emit(
        "adafactor", inputs,
        {{"factored", is_factored}, {"threshold", 1.0}, {"weight_decay", spec.weight_decay}});
  }

  /// The average over the steps of the mean square of the gradient over dim `over`; 0: over none.
  ValueId averaged(const std::string& name, int over, const OptimizerSpec& spec,
                   const Shared& shared) {
    const TensorType& type = build_.type(gradient_.gradient);
    const double length = over == 0 ? 1.0 : static_cast<double>(type.size(over));
    std::vector<ValueId> inputs = {gradient_.gradient};
    add_clip(inputs, shared.clip);
    const ValueId moment = build_.emit(
        "adafactor_moment", inputs,
        {{"over", std::int64_t{over}}, {"epsilon", spec.epsilon}, {"scale", 1.0 / length}});
    const ValueId old =
        build_.state(name_ + "." + name, build_.type(moment), gradient_.parameter, {});
    const ValueId average =
        build_.emit("adafactor_average", {old, moment, shared.step}, {{"decay", 0.8}});
    next(old, average);
    return average;
  }

  Builder& build_;
  ParameterGradient gradient_;
  std::string name_;
};

}  // namespace

void append_update(Builder& build, const std::vector<ParameterGradient>& gradients,
                   const OptimizerSpec& optimizer) {
  check(optimizer);
  build.set_role(Role::update);
  Shared shared;
  const DType scalar = wide_dtype(build.type(gradients.front().parameter).dtype);
  shared.lr = build.input("lr", {{}, scalar});
  if (optimizer.name != "sgd" && optimizer.name != "lion") {
    shared.step = build.input("step", {{}, scalar});
  }
  if (optimizer.clip > 0) {
    shared.clip = clip_factor(build, gradients, optimizer.clip);
  }
  for (const ParameterGradient& g : gradients) {
    ParameterUpdate(build, g).append(optimizer, shared);
  }
}

}  // namespace weft
