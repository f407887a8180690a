// rotary(x[b,s,h,d]) -> y: pairs of features turn by an angle that grows with the position.
//
//   (y₁, y₂) = (x₁ cos φ - x₂ sin φ, x₂ cos φ + x₁ sin φ),   φ = position · f_i
//   f_i = base^(-2i/dims) for pair i < dims/2
//
// A pair is (x_i, x_{i + dims/2}), or with `interleaved` (x_{2i}, x_{2i+1}). Features from `dims`
// on pass unchanged. The position is the index in the whole sequence, so s may be split. `inverse`
// turns back, which is the transpose and so the gradient.
//
// `scaling`: "none"; "linear": f_i / factor; "llama3": with the wave length λ = 2π / f_i,
// f_i / factor where λ > original/low, f_i where λ < original/high, and between them
// f_i ((1 - m)/factor + m), m = (original/λ - low) / (high - low).

#include "weft/ops/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

std::string scaling_of(const Attrs& attrs) {
  return has_attr(attrs, "scaling") ? attr_text(attrs, "scaling") : "none";
}

void require_flag(const Attrs& attrs, const char* name) {
  const std::int64_t flag = attr_int(attrs, name);
  require(flag == 0 || flag == 1, "rotary: {} = {}, but must be 0 or 1", name, flag);
}

void require_scaling(const Attrs& attrs) {
  const std::string scaling = scaling_of(attrs);
  require(scaling == "none" || scaling == "linear" || scaling == "llama3",
          "rotary: there is no scaling '{}'; it is none, linear or llama3", scaling);
  if (scaling == "none") {
    return;
  }
  const double factor = attr_number(attrs, "factor");
  require(factor > 0, "rotary: factor is {}, but must be positive", factor);
  if (scaling == "llama3") {
    const double low = attr_number(attrs, "low");
    const double high = attr_number(attrs, "high");
    require(low > 0 && high > low && attr_number(attrs, "original") > 0,
            "rotary: llama3 needs 0 < low < high and a positive original length, not {}, {} and {}",
            low, high, attr_number(attrs, "original"));
  }
}

TensorTypes infer(const OpCall& call) {
  require_floating(call, "rotary", 0);
  const TensorType& x = call.inputs[0];
  require(x.rank() == 4, "rotary: input {} must be [b,s,h,d]", format_type(x));
  const std::int64_t dims = attr_int(call.attrs, "dims");
  require(dims > 0 && dims % 2 == 0 && dims <= x.shape[3].size,
          "rotary: dims is {}, but must be even and at most the {} features of a head", dims,
          x.shape[3].size);
  require(attr_number(call.attrs, "base") > 0, "rotary: base must be positive");
  require_flag(call.attrs, "interleaved");
  require_flag(call.attrs, "inverse");
  require_scaling(call.attrs);
  return {x};
}

FactorRule factors(const OpCall& /*call*/) {
  return {.dims = "b s h d -> b s h d", .whole = "d", .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  Attrs attrs = b.node.attrs;
  attrs["inverse"] = 1 - attr_int(attrs, "inverse");
  return {b.build.emit("rotary", {b.output_grads[0]}, attrs)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 3);
}

std::int64_t workspace(const OpCall& call) {
  return rotary_table_size(call) * element_bytes(sum_dtype(call.inputs[0].dtype));
}

}  // namespace

std::vector<double> rotary_frequencies(const Attrs& attrs) {
  const std::int64_t dims = attr_int(attrs, "dims");
  const double base = attr_number(attrs, "base");
  const std::string scaling = scaling_of(attrs);
  const double factor = scaling == "none" ? 1.0 : attr_number(attrs, "factor");
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < dims / 2; ++i) {
    const double f = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    double share = scaling == "linear" ? 0.0 : 1.0;  // of f that is kept as it is
    if (scaling == "llama3") {
      const double low = attr_number(attrs, "low");
      const double high = attr_number(attrs, "high");
      const double turns = attr_number(attrs, "original") * f / (2 * std::numbers::pi);
      share = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    }
    frequencies.push_back(f * ((1 - share) / factor + share));
  }
  return frequencies;
}

std::int64_t rotary_table_size(const OpCall& call) {
  return call.inputs[0].size(1) * attr_int(call.attrs, "dims") *
         (1 + attr_int(call.attrs, "interleaved"));
}

OpDef rotary() {
  return {.name = "rotary",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace,
          .may_overwrite = {{0, 0}}};
}

}  // namespace weft::ops
