#pragma once

#include "weft/ops/element.aten.h"

// Loops over rows of channels [rows, c] with numbers for each channel: what batch norm and group
// norm are made of. The numbers of channels are in the wide type; sums over rows are kept in f64,
// so that the sum of squares may be told from the square of the sum.
namespace weft::ops {

/// A sum for each lane of a pack: of f64 in `low` alone.
struct Sums {
  Pack<double> low = {};
  Pack<double> high = {};
};

WEFT_INLINE inline void widen(const Pack<float>& x, Pack<double>& low, Pack<double>& high) {
  low = __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1, 2, 3), Pack<double>);
  high = __builtin_convertvector(__builtin_shufflevector(x, x, 4, 5, 6, 7), Pack<double>);
}

WEFT_INLINE inline void add(Sums& sums, const Pack<float>& x) {
  Pack<double> low = {};
  Pack<double> high = {};
  widen(x, low, high);
  sums.low += low;
  sums.high += high;
}
WEFT_INLINE inline void add(Sums& sums, const Pack<double>& x) {
  sums.low += x;
}
WEFT_INLINE inline void add_square(Sums& sums, const Pack<float>& x) {
  Pack<double> low = {};
  Pack<double> high = {};
  widen(x, low, high);
  sums.low += low * low;
  sums.high += high * high;
}
WEFT_INLINE inline void add_square(Sums& sums, const Pack<double>& x) {
  sums.low += x * x;
}

/// to[i] += the sum of lane i.
WEFT_INLINE inline void flush(const Sums& sums, double* to, int count) {
  for (int i = 0; i < count; ++i) {
    to[i] += i < 4 ? sums.low[i] : sums.high[i - 4];
  }
}

/// sum[c] += x, squares[c] += x² over all rows.
template <typename T>
void add_moments(const T* x, std::int64_t rows, std::int64_t channels, double* sum,
                 double* squares) {
  constexpr std::int64_t kRows = 32;  // stay in the cache while the packs of channels pass
  run_simd([=]() WEFT_INLINE {
    for (std::int64_t r = 0; r < rows; r += kRows) {
      const std::int64_t end = std::min(rows, r + kRows);
      for_packs<Wide<T>>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
        Sums first;
        Sums second;
        for (std::int64_t i = r; i < end; ++i) {
          Pack<Wide<T>> value = {};
          load(value, x + i * channels + c, count);
          add(first, value);
          add_square(second, value);
        }
        flush(first, sum + c, count);
        flush(second, squares + c, count);
      });
    }
  });
}

/// sum[c] += dy, product[c] += dy (x - mean) rstd over all rows.
template <typename T>
void add_gradient_sums(const T* dy, const T* x, std::int64_t rows, std::int64_t channels,
                       const Wide<T>* mean, const Wide<T>* rstd, double* sum, double* product) {
  constexpr std::int64_t kRows = 32;
  run_simd([=]() WEFT_INLINE {
    for (std::int64_t r = 0; r < rows; r += kRows) {
      const std::int64_t end = std::min(rows, r + kRows);
      for_packs<Wide<T>>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
        Sums first;
        Sums second;
        Pack<Wide<T>> centre = {};
        Pack<Wide<T>> scale = {};
        load(centre, mean + c, count);
        load(scale, rstd + c, count);
        for (std::int64_t i = r; i < end; ++i) {
          Pack<Wide<T>> d = {};
          Pack<Wide<T>> n = {};
          load(d, dy + i * channels + c, count);
          load(n, x + i * channels + c, count);
          n = (n - centre) * scale * d;
          add(first, d);
          add(second, n);
        }
        flush(first, sum + c, count);
        flush(second, product + c, count);
      });
    }
  });
}

/// Numbers of each channel.
template <typename W>
struct Affine {
  std::vector<W> centre;
  std::vector<W> scale;
  std::vector<W> shift;
};

/// y = (x - centre) scale + shift
template <typename T>
void apply(const Affine<Wide<T>>& a, const T* x, std::int64_t rows, T* y) {
  const auto channels = static_cast<std::int64_t>(a.centre.size());
  const Wide<T>* const centre = a.centre.data();
  const Wide<T>* const scale = a.scale.data();
  const Wide<T>* const shift = a.shift.data();
  run_simd([=]() WEFT_INLINE {
    for (std::int64_t i = 0; i < rows; ++i) {
      for_packs<Wide<T>>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
        Pack<Wide<T>> value = {};
        Pack<Wide<T>> of = {};
        load(value, x + i * channels + c, count);
        load(of, centre + c, count);
        value -= of;
        load(of, scale + c, count);
        value *= of;
        load(of, shift + c, count);
        value += of;
        store(y + i * channels + c, value, count);
      });
    }
  });
}

template <typename W>
struct InputGradient {
  std::vector<W> centre;
  std::vector<W> scale;
  std::vector<W> constant;
  std::vector<W> slope;
};

/// dx = dy scale - constant - (x - centre) slope
template <typename T>
void apply(const InputGradient<Wide<T>>& g, const T* dy, const T* x, std::int64_t rows, T* dx) {
  const auto channels = static_cast<std::int64_t>(g.centre.size());
  const Wide<T>* const centre = g.centre.data();
  const Wide<T>* const scale = g.scale.data();
  const Wide<T>* const constant = g.constant.data();
  const Wide<T>* const slope = g.slope.data();
  run_simd([=]() WEFT_INLINE {
    for (std::int64_t i = 0; i < rows; ++i) {
      for_packs<Wide<T>>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
        Pack<Wide<T>> d = {};
        Pack<Wide<T>> value = {};
        Pack<Wide<T>> of = {};
        load(d, dy + i * channels + c, count);
        load(of, scale + c, count);
        d *= of;
        load(of, constant + c, count);
        d -= of;
        load(value, x + i * channels + c, count);
        load(of, centre + c, count);
        value -= of;
        load(of, slope + c, count);
        d -= value * of;
        store(dx + i * channels + c, d, count);
      });
    }
  });
}

/// A vector over channels in the wide type.
template <typename W>
std::vector<W> channel_numbers(const at::Tensor& from) {
  std::vector<W> to(static_cast<std::size_t>(from.numel()));
  if (from.scalar_type() == at::kFloat) {
    convert(to.data(), from.data_ptr<float>(), from.numel());
  } else if (from.scalar_type() == at::kDouble) {
    convert(to.data(), from.data_ptr<double>(), from.numel());
  } else {
    convert(to.data(), from.data_ptr<at::BFloat16>(), from.numel());
  }
  return to;
}

}  // namespace weft::ops
