// The functions of `unary` and their derivatives. Where ATen has a vectorised function that writes
// into a given tensor, that is taken; the others are formulas over one element. So no function
// takes memory besides its output. A derivative that is a function of ATen's is written into dx and
// then multiplied by dy.
#include "weft/kernels/torch_headers.h"

#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/elementwise.aten.h"

namespace weft::ops {
namespace {

/// The attributes alpha and beta, 0 where a function has none.
struct Numbers {
  double alpha = 0;
  double beta = 0;
};

using Value = void (*)(at::Tensor& y, const at::Tensor& x, const Numbers& n);
using Slope = void (*)(at::Tensor& dx, const at::Tensor& dy, const at::Tensor& kept,
                       const Numbers& n);
struct Formula {
  Value value = nullptr;
  Slope slope = nullptr;  // null: none is needed
};
using Formulas = std::map<std::string, Formula, std::less<>>;

// y = f(x)
template <typename F>
void each(at::Tensor& y, const at::Tensor& x, const F& f) {
  visit_floating(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_into<T, T>(y, x, f);
  });
}

// dx = dy f(kept)
template <typename F>
void times(at::Tensor& dx, const at::Tensor& dy, const at::Tensor& kept, const F& f) {
  visit_floating(dy, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_pairs_into<T>(dx, dy, kept, [&f](auto d, auto v) { return d * f(v); });
  });
}

template <typename F>
void flag(at::Tensor& y, const at::Tensor& x, const F& f) {
  visit_any(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_into<std::uint8_t, T>(y, x, f);
  });
}

// A function of ATen's, and a formula.
#define WEFT_ATEN(name) [](at::Tensor& y, const at::Tensor& x, const Numbers&) { at::name(y, x); }
#define WEFT_VALUE(...)                                            \
  [](at::Tensor& y, const at::Tensor& x, const Numbers& n) {       \
    (void)n;                                                       \
    each(y, x, [n]<typename T>(T v) -> T { return __VA_ARGS__; }); \
  }
#define WEFT_SLOPE(...)                                                                \
  [](at::Tensor& dx, const at::Tensor& dy, const at::Tensor& kept, const Numbers& n) { \
    (void)n;                                                                           \
    times(dx, dy, kept, [n]<typename T>(T v) -> T { return __VA_ARGS__; });            \
  }
#define WEFT_ATEN_SLOPE(name)                                                        \
  [](at::Tensor& dx, const at::Tensor& dy, const at::Tensor& kept, const Numbers&) { \
    at::name(dx, kept);                                                              \
    dx.mul_(dy);                                                                     \
  }

void add_analytic(Formulas& f) {
  f["exp"] = {WEFT_ATEN(exp_out), WEFT_SLOPE(v)};
  f["expm1"] = {WEFT_ATEN(expm1_out), WEFT_SLOPE(v + 1)};
  f["log"] = {WEFT_ATEN(log_out), WEFT_SLOPE(1 / v)};
  f["log1p"] = {WEFT_ATEN(log1p_out), WEFT_SLOPE(1 / (1 + v))};
  f["sqrt"] = {WEFT_ATEN(sqrt_out), WEFT_SLOPE(T(0.5) / v)};
  f["rsqrt"] = {WEFT_ATEN(rsqrt_out), WEFT_SLOPE(T(-0.5) * v * v * v)};
  f["reciprocal"] = {WEFT_ATEN(reciprocal_out), WEFT_SLOPE(-v * v)};
  f["erf"] = {WEFT_ATEN(erf_out),
              WEFT_SLOPE(T(2 / std::sqrt(std::numbers::pi)) * std::exp(-v * v))};
  f["square"] = {[](at::Tensor& y, const at::Tensor& x, const Numbers&) { at::mul_out(y, x, x); },
                 WEFT_SLOPE(2 * v)};
}

void add_trigonometric(Formulas& f) {
  f["sin"] = {WEFT_ATEN(sin_out), WEFT_ATEN_SLOPE(cos_out)};
  f["cos"] = {WEFT_ATEN(cos_out),
              [](at::Tensor& dx, const at::Tensor& dy, const at::Tensor& x, const Numbers&) {
                at::sin_out(dx, x);
                dx.mul_(dy).neg_();
              }};
  f["tan"] = {WEFT_ATEN(tan_out), WEFT_SLOPE(1 + v * v)};
  f["asin"] = {WEFT_ATEN(asin_out), WEFT_SLOPE(1 / std::sqrt(1 - v * v))};
  f["acos"] = {WEFT_ATEN(acos_out), WEFT_SLOPE(-1 / std::sqrt(1 - v * v))};
  f["atan"] = {WEFT_ATEN(atan_out), WEFT_SLOPE(1 / (1 + v * v))};
  f["sinh"] = {WEFT_ATEN(sinh_out), WEFT_ATEN_SLOPE(cosh_out)};
  f["cosh"] = {WEFT_ATEN(cosh_out), WEFT_ATEN_SLOPE(sinh_out)};
  f["tanh"] = {WEFT_ATEN(tanh_out), WEFT_SLOPE(1 - v * v)};
  f["asinh"] = {WEFT_ATEN(asinh_out), WEFT_SLOPE(1 / std::sqrt(v * v + 1))};
  f["acosh"] = {WEFT_ATEN(acosh_out), WEFT_SLOPE(1 / std::sqrt(v * v - 1))};
  f["atanh"] = {WEFT_ATEN(atanh_out), WEFT_SLOPE(1 / (1 - v * v))};
}

void add_activations(Formulas& f) {
  f["sigmoid"] = {WEFT_ATEN(sigmoid_out), WEFT_SLOPE(v * (1 - v))};
  f["silu"] = {WEFT_ATEN(silu_out), [](at::Tensor& dx, const at::Tensor& dy, const at::Tensor& x,
                                       const Numbers&) { at::silu_backward_out(dx, dy, x); }};
  f["mish"] = {WEFT_VALUE(v * std::tanh(std::max(v, T(0)) + std::log1p(std::exp(-std::abs(v))))),
               WEFT_SLOPE([v] {
                 const T t = std::tanh(std::max(v, T(0)) + std::log1p(std::exp(-std::abs(v))));
                 return t + v * (1 - t * t) / (1 + std::exp(-v));
               }())};
  // log(1 + e^v) without overflow
  f["softplus"] = {WEFT_VALUE(std::max(v, T(0)) + std::log1p(std::exp(-std::abs(v)))),
                   WEFT_ATEN_SLOPE(sigmoid_out)};
  f["softsign"] = {WEFT_VALUE(v / (1 + std::abs(v))),
                   WEFT_SLOPE(1 / ((1 + std::abs(v)) * (1 + std::abs(v))))};
  f["elu"] = {WEFT_VALUE(v > 0 ? v : T(n.alpha) * std::expm1(v)),
              WEFT_SLOPE(v > 0 ? 1 : T(n.alpha) * std::exp(v))};
  f["selu"] = {WEFT_VALUE(T(n.beta) * (v > 0 ? v : T(n.alpha) * std::expm1(v))),
               WEFT_SLOPE(T(n.beta) * (v > 0 ? 1 : T(n.alpha) * std::exp(v)))};
  f["celu"] = {WEFT_VALUE(v > 0 ? v : T(n.alpha) * std::expm1(v / T(n.alpha))),
               WEFT_SLOPE(v > 0 ? 1 : std::exp(v / T(n.alpha)))};
}

// A limit as a whole number: no further than the dtype reaches.
template <typename T>
T whole_limit(double limit) {
  constexpr double kReach = -static_cast<double>(std::numeric_limits<T>::min());
  return limit >= kReach    ? std::numeric_limits<T>::max()
         : limit <= -kReach ? std::numeric_limits<T>::min()
                            : static_cast<T>(limit);
}

// What is no number stays none.
void clip(at::Tensor& y, const at::Tensor& x, const Numbers& n) {
  visit_number(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = at::opmath_type<T>;
    W low = 0;
    W high = 0;
    if constexpr (std::is_integral_v<T>) {
      low = whole_limit<T>(std::ceil(n.alpha));
      high = whole_limit<T>(std::floor(n.beta));
    } else {
      low = static_cast<W>(n.alpha);
      high = static_cast<W>(n.beta);
    }
    map_into<T, T>(y, x, [low, high](W v) { return v > high ? high : v < low ? low : v; });
  });
}

// Lines with kinks. At a kink the derivative is that of PyTorch.
void add_pieces(Formulas& f) {
  f["abs"] = {WEFT_ATEN(abs_out), WEFT_SLOPE(T((v > 0) - (v < 0)))};
  f["neg"] = {WEFT_ATEN(neg_out), nullptr};
  f["clip"] = {clip, WEFT_SLOPE(v >= T(n.alpha) && v <= T(n.beta) ? 1 : 0)};
  f["leaky_relu"] = {WEFT_VALUE(v > 0 ? v : v * T(n.alpha)), WEFT_SLOPE(v > 0 ? 1 : T(n.alpha))};
  f["hard_sigmoid"] = {WEFT_VALUE(std::max(T(0), std::min(T(1), T(n.alpha) * v + T(n.beta)))),
                       WEFT_SLOPE(v > 0 && v < 1 ? T(n.alpha) : 0)};
  f["hard_swish"] = {WEFT_VALUE(v * std::max(T(0), std::min(T(1), v / 6 + T(0.5)))),
                     WEFT_SLOPE(v <= -3  ? 0
                                : v >= 3 ? 1
                                         : v / 3 + T(0.5))};
  f["thresholded_relu"] = {WEFT_VALUE(v > T(n.alpha) ? v : 0), WEFT_SLOPE(v > T(n.alpha) ? 1 : 0)};
  f["shrink"] = {WEFT_VALUE(v < -T(n.beta)  ? v + T(n.alpha)
                            : v > T(n.beta) ? v - T(n.alpha)
                                            : 0),
                 WEFT_SLOPE(std::abs(v) > T(n.beta) ? 1 : 0)};
}

void add_steps(Formulas& f) {
  f["ceil"] = {WEFT_ATEN(ceil_out), nullptr};
  f["floor"] = {WEFT_ATEN(floor_out), nullptr};
  f["round"] = {WEFT_ATEN(round_out), nullptr};  // halves to even
  f["sign"] = {WEFT_ATEN(sign_out), nullptr};
  f["isinf"] = {[](at::Tensor& y, const at::Tensor& x, const Numbers&) {
                  flag(y, x, [](auto v) { return std::abs(v) == INFINITY; });
                },
                nullptr};
  f["isnan"] = {[](at::Tensor& y, const at::Tensor& x, const Numbers&) {
                  flag(y, x, [](auto v) { return v != v; });
                },
                nullptr};
  f["not"] = {[](at::Tensor& y, const at::Tensor& x, const Numbers&) {
                flag(y, x, [](auto v) { return v == 0; });
              },
              nullptr};
}

#undef WEFT_ATEN
#undef WEFT_VALUE
#undef WEFT_SLOPE
#undef WEFT_ATEN_SLOPE

const Formula& formula_of(const KernelCall& call) {
  static const Formulas kFormulas = [] {
    Formulas f;
    add_analytic(f);
    add_trigonometric(f);
    add_activations(f);
    add_pieces(f);
    add_steps(f);
    return f;
  }();
  const auto it = kFormulas.find(attr_text(call.call.attrs, "function"));
  WEFT_CHECK(it != kFormulas.end());
  return it->second;
}

Numbers numbers_of(const KernelCall& call) {
  const Attrs& attrs = call.call.attrs;
  return {.alpha = has_attr(attrs, "alpha") ? attr_number(attrs, "alpha") : 0,
          .beta = has_attr(attrs, "beta") ? attr_number(attrs, "beta") : 0};
}

}  // namespace

Tensors unary_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const bool gives_flag = call.call.outputs[0].dtype == DType::u8;
  at::Tensor y = at::empty(x.sizes(), gives_flag ? x.options().dtype(at::kByte) : x.options());
  formula_of(call).value(y, x, numbers_of(call));
  return {y};
}

Tensors unary_backward_kernel(const KernelCall& call) {
  at::Tensor dx = at::empty_like(call.inputs[0]);
  const Slope slope = formula_of(call).slope;
  WEFT_CHECK(slope != nullptr);
  slope(dx, call.inputs[0], call.inputs[1], numbers_of(call));
  return {dx};
}

}  // namespace weft::ops
