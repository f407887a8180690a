// The functions of `binary` and their derivatives: formulas over two elements, without temporaries.
#include "weft/kernels/torch_headers.h"

#include <cmath>
#include <map>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/elementwise.aten.h"

namespace weft::ops {
namespace {

template <typename T>
inline constexpr bool kWhole = std::is_integral_v<T>;

// Whole numbers: towards zero; by zero is an error, and the one quotient that does not fit wraps.
template <typename T>
T quotient(T a, T b) {
  if constexpr (kWhole<T>) {
    require(b != 0, "binary: a whole number is divided by zero");
    return b == T(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : T(a / b);
  } else {
    return a / b;
  }
}

// The rest has the sign of a.
template <typename T>
T rest(T a, T b) {
  if constexpr (kWhole<T>) {
    require(b != 0, "binary: a whole number is divided by zero");
    return b == T(-1) ? T(0) : T(a % b);
  } else {
    return std::fmod(a, b);
  }
}

// The rest has the sign of b.
template <typename T>
T modulus(T a, T b) {
  const T r = rest(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}

template <typename T>
T power(T a, T b) {
  if constexpr (kWhole<T>) {
    using U = std::make_unsigned_t<T>;  // wraps
    if (b < 0) {
      return a == 1 ? T(1) : a == T(-1) ? T(b % 2 == 0 ? 1 : -1) : T(0);
    }
    U result = 1;
    for (U square = static_cast<U>(a); b > 0; b = T(b / 2), square *= square) {
      result *= b % 2 == 1 ? square : U(1);
    }
    return static_cast<T>(result);
  } else {
    return std::pow(a, b);
  }
}

// By as many bits as there are, or more, nothing is left.
template <typename T>
T shifted(T a, T b, bool left) {
  using U = std::make_unsigned_t<T>;
  if (static_cast<U>(b) >= 8 * sizeof(T)) {
    return T(0);
  }
  return static_cast<T>(left ? static_cast<U>(a) << b : static_cast<U>(a) >> b);
}

template <typename T>
bool is_nan(T x) {
  if constexpr (kWhole<T>) {
    return false;
  } else {
    return std::isnan(x);
  }
}

using Tensor3 = void (*)(at::Tensor& c, const at::Tensor& a, const at::Tensor& b);

// c = f(a, b). Out is void: the type of the operands.
template <typename Out, typename T, typename F>
void fill_typed(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const F& f) {
  using R = std::conditional_t<std::is_void_v<Out>, T, Out>;
  const T* first = a.data_ptr<T>();
  const T* second = b.data_ptr<T>();
  R* to = c.data_ptr<R>();
  for_suffix(a.numel(), b.numel(), [&](std::int64_t i, std::int64_t j) {
    to[i] = static_cast<R>(f(as_number(first[i]), as_number(second[j])));
  });
}

template <typename Out = void, typename F>
void fill_any(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const F& f) {
  visit_any(a, [&](auto tag) { fill_typed<Out, typename decltype(tag)::type>(c, a, b, f); });
}

template <typename F>
void fill_number(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const F& f) {
  visit_number(a, [&](auto tag) { fill_typed<void, typename decltype(tag)::type>(c, a, b, f); });
}

template <typename F>
void fill_floating(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const F& f) {
  visit_floating(a, [&](auto tag) { fill_typed<void, typename decltype(tag)::type>(c, a, b, f); });
}

template <typename F>
void fill_whole(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const F& f) {
  switch (a.scalar_type()) {
    case at::kLong:
      return fill_typed<void, std::int64_t>(c, a, b, f);
    case at::kInt:
      return fill_typed<void, std::int32_t>(c, a, b, f);
    default:
      return fill_typed<void, std::uint8_t>(c, a, b, f);
  }
}

#define WEFT_FORMULA(fill, ...)                                                               \
  [](at::Tensor& c, const at::Tensor& a, const at::Tensor& b) {                               \
    fill(c, a, b,                                                                             \
         []<typename T>([[maybe_unused]] T x, [[maybe_unused]] T y) { return __VA_ARGS__; }); \
  }

// A number that is none wins over every other, as in PyTorch.
const std::map<std::string, Tensor3, std::less<>>& formulas() {
  static const std::map<std::string, Tensor3, std::less<>> kFormulas = {
      {"and", WEFT_FORMULA(fill_whole, T(x & y))},
      {"atan2", WEFT_FORMULA(fill_floating, std::atan2(x, y))},
      {"div", WEFT_FORMULA(fill_number, quotient(x, y))},
      {"eq", WEFT_FORMULA(fill_any<std::uint8_t>, x == y)},
      {"fmod", WEFT_FORMULA(fill_number, rest(x, y))},
      {"ge", WEFT_FORMULA(fill_any<std::uint8_t>, x >= y)},
      {"gt", WEFT_FORMULA(fill_any<std::uint8_t>, x > y)},
      {"le", WEFT_FORMULA(fill_any<std::uint8_t>, x <= y)},
      {"lt", WEFT_FORMULA(fill_any<std::uint8_t>, x < y)},
      {"max", WEFT_FORMULA(fill_any, x > y || is_nan(x) ? x : y)},
      {"min", WEFT_FORMULA(fill_any, x < y || is_nan(x) ? x : y)},
      {"mod", WEFT_FORMULA(fill_number, modulus(x, y))},
      {"or", WEFT_FORMULA(fill_whole, T(x | y))},
      {"pow", WEFT_FORMULA(fill_number, power(x, y))},
      {"prelu", WEFT_FORMULA(fill_number, x > 0 ? x : T(x * y))},
      {"shift_left", WEFT_FORMULA(fill_whole, shifted(x, y, true))},
      {"shift_right", WEFT_FORMULA(fill_whole, shifted(x, y, false))},
      {"sub", WEFT_FORMULA(fill_number, T(x - y))},
      {"xor", WEFT_FORMULA(fill_whole, T(x ^ y))},
  };
  return kFormulas;
}

// Derivatives by the first and by the second variable. Equal operands of max and min share; the
// rests of divisions have the derivative of a - n b, where n is the whole quotient.
struct Slopes {
  Tensor3 by_a = nullptr;
  Tensor3 by_b = nullptr;
};

#define WEFT_DERIVATIVE(...) WEFT_FORMULA(fill_floating, T(__VA_ARGS__))

const std::map<std::string, Slopes, std::less<>>& slopes() {
  static const std::map<std::string, Slopes, std::less<>> kSlopes = {
      {"atan2", {WEFT_DERIVATIVE(y / (x * x + y * y)), WEFT_DERIVATIVE(-x / (x * x + y * y))}},
      {"div", {WEFT_DERIVATIVE(1 / y), WEFT_DERIVATIVE(-x / (y * y))}},
      {"fmod", {WEFT_DERIVATIVE(1), WEFT_DERIVATIVE(-std::trunc(x / y))}},
      {"max",
       {WEFT_DERIVATIVE(x > y    ? 1
                        : x == y ? 0.5
                                 : 0),
        WEFT_DERIVATIVE(x < y    ? 1
                        : x == y ? 0.5
                                 : 0)}},
      {"min",
       {WEFT_DERIVATIVE(x < y    ? 1
                        : x == y ? 0.5
                                 : 0),
        WEFT_DERIVATIVE(x > y    ? 1
                        : x == y ? 0.5
                                 : 0)}},
      {"mod", {WEFT_DERIVATIVE(1), WEFT_DERIVATIVE(-std::floor(x / y))}},
      {"pow",
       {WEFT_DERIVATIVE(y == 0 ? 0 : y * std::pow(x, y - 1)),
        WEFT_DERIVATIVE(x == 0 && y >= 0 ? 0 : std::pow(x, y) * std::log(x))}},
      {"prelu", {WEFT_DERIVATIVE(x > 0 ? 1 : y), WEFT_DERIVATIVE(x > 0 ? 0 : x)}},
  };
  return kSlopes;
}

#undef WEFT_DERIVATIVE
#undef WEFT_FORMULA

}  // namespace

Tensors binary_kernel(const KernelCall& call) {
  const at::Tensor& a = call.inputs[0];
  const bool gives_flag = call.call.outputs[0].dtype == DType::u8;
  at::Tensor c = at::empty(a.sizes(), gives_flag ? a.options().dtype(at::kByte) : a.options());
  formulas().at(attr_text(call.call.attrs, "function"))(c, a, call.inputs[1]);
  return {c};
}

Tensors binary_backward_kernel(const KernelCall& call) {
  at::Tensor grad = at::empty_like(call.inputs[1]);
  const Slopes& found = slopes().at(attr_text(call.call.attrs, "function"));
  const bool by_a = attr_int(call.call.attrs, "wrt") == 0;
  (by_a ? found.by_a : found.by_b)(grad, call.inputs[1], call.inputs[2]);
  grad.mul_(call.inputs[0]);
  return {grad};
}

}  // namespace weft::ops
