#pragma once

// Loops over elements with a formula in place of a kernel: no temporaries, and the element is
// computed in f32 where it is stored in less.

#include <ATen/OpMathType.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "weft/kernels/torch_headers.h"

namespace weft::ops {

inline constexpr std::int64_t kElementGrain = 8192;

/// Calls f(std::type_identity<T>) for the element type of a tensor.
template <typename F>
void visit_floating(const at::Tensor& x, const F& f) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "weft",
                                  [&] { f(std::type_identity<scalar_t>{}); });
}

template <typename F>
void visit_number(const at::Tensor& x, const F& f) {
  switch (x.scalar_type()) {
    case at::kLong:
      return f(std::type_identity<std::int64_t>{});
    case at::kInt:
      return f(std::type_identity<std::int32_t>{});
    default:
      visit_floating(x, f);
  }
}

template <typename F>
void visit_any(const at::Tensor& x, const F& f) {
  return x.scalar_type() == at::kByte ? f(std::type_identity<std::uint8_t>{}) : visit_number(x, f);
}

template <typename T>
auto as_number(T value) {
  return static_cast<at::opmath_type<T>>(value);
}

/// y[i] = f(x[i])
template <typename Out, typename In, typename F>
void map_into(at::Tensor& y, const at::Tensor& x, const F& f) {
  const In* from = x.data_ptr<In>();
  Out* to = y.data_ptr<Out>();
  at::parallel_for(0, x.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<Out>(f(as_number(from[i])));
    }
  });
}

/// z[i] = f(x[i], y[i])
template <typename T, typename F>
void map_pairs_into(at::Tensor& z, const at::Tensor& x, const at::Tensor& y, const F& f) {
  const T* first = x.data_ptr<T>();
  const T* second = y.data_ptr<T>();
  T* to = z.data_ptr<T>();
  at::parallel_for(0, x.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<T>(f(as_number(first[i]), as_number(second[i])));
    }
  });
}

/// body(i, j) for all i < n, where j = i mod period: how element i meets a tensor of a suffix of
/// its shape.
template <typename Body>
void for_suffix(std::int64_t n, std::int64_t period, const Body& body) {
  at::parallel_for(0, n, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    if (period == 1) {
      for (std::int64_t i = begin; i < end; ++i) {
        body(i, std::int64_t{0});
      }
      return;
    }
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t j = i % period;
      const std::int64_t length = std::min(end - i, period - j);
      for (std::int64_t k = 0; k < length; ++k) {
        body(i + k, j + k);
      }
      i += length;
    }
  });
}

}  // namespace weft::ops
