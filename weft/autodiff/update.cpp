// A parameter of 16 bits cannot take steps smaller than its last bit, so the optimizer keeps a copy
// of 32 bits (the master), updates that and rounds it to the parameter.
#include "weft/autodiff/update.h"

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
  require(spec.name == "adamw" || spec.name == "sgd", "optimizer '{}' is unknown; use adamw or sgd",
          spec.name);
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  require(fraction(spec.beta1) && fraction(spec.beta2) && fraction(spec.momentum),
          "optimizer {}: beta1, beta2 and momentum must be at least 0 and below 1", spec.name);
  require(spec.epsilon >= 0 && spec.weight_decay >= 0 && spec.clip >= 0,
          "optimizer {}: epsilon, weight decay and clip must not be negative", spec.name);
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
    const ValueId updated =
        spec.name == "adamw" ? adamw(weight, spec, shared) : sgd(weight, spec, shared);
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

  ValueId adamw(ValueId weight, const OptimizerSpec& spec, const Shared& shared) {
    const ValueId m = state("m", {});
    const ValueId v = state("v", {});
    std::vector<ValueId> inputs = {weight, gradient_.gradient, m, v, shared.lr, shared.step};
    if (shared.clip >= 0) {
      inputs.push_back(shared.clip);
    }
    const std::vector<ValueId> out = build_.emit_all("adamw", inputs,
                                                     {{"beta1", spec.beta1},
                                                      {"beta2", spec.beta2},
                                                      {"epsilon", spec.epsilon},
                                                      {"weight_decay", spec.weight_decay}});
    next(m, out[1]);
    next(v, out[2]);
    return out[0];
  }

  ValueId sgd(ValueId weight, const OptimizerSpec& spec, const Shared& shared) {
    const ValueId momentum = state("momentum", {});
    std::vector<ValueId> inputs = {weight, gradient_.gradient, momentum, shared.lr};
    if (shared.clip >= 0) {
      inputs.push_back(shared.clip);
    }
    const std::vector<ValueId> out = build_.emit_all(
        "sgd", inputs, {{"momentum", spec.momentum}, {"weight_decay", spec.weight_decay}});
    next(momentum, out[1]);
    return out[0];
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
  if (optimizer.name == "adamw") {
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
