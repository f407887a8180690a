#pragma once

// Loops over rows of numbers in packs of 32 bytes, compiled twice: for any x86-64 and for AVX2 with
// FMA. Packs are the compilers' own vector types, so that the loops are vector code whatever the
// optimiser makes of them.
//
//   run_simd([=]() WEFT_INLINE {
//     for_packs<T>(n, [=](std::int64_t j, int count) WEFT_INLINE { … load, compute, store … });
//   });
//
// Everything inside must be inlined: a call would leave the code for AVX2, hence WEFT_INLINE.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define WEFT_INLINE __attribute__((always_inline))

namespace weft::ops {

template <typename T>
using Pack __attribute__((vector_size(32))) = T;

/// The upper half of an f32, as ATen stores bf16. Kernels read and write it, but compute in f32.
struct Bf16 {
  std::uint16_t bits = 0;
};

/// The type in which a kernel computes with numbers stored as T: f32 for those of two bytes.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

template <typename T>
inline constexpr int kLanes = 32 / sizeof(Wide<T>);

[[nodiscard]] WEFT_INLINE inline float widen(Bf16 x) {
  const std::uint32_t bits = std::uint32_t{x.bits} << 16U;
  float wide = 0;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}
template <typename T>
[[nodiscard]] WEFT_INLINE inline T widen(T x) {
  return x;
}

/// To the nearest number that T has, ties to even.
template <typename T>
[[nodiscard]] WEFT_INLINE inline T narrow(Wide<T> x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    return {static_cast<std::uint16_t>(x != x ? 0x7FC0U : rounded)};
  } else {
    return x;
  }
}

/// The first `count` lanes come from memory, the others are `rest`.
template <typename P, typename T>
WEFT_INLINE inline void load(P& pack, const T* from, int count, std::type_identity_t<T> rest = 0) {
  if (count == kLanes<T>) {
    std::memcpy(&pack, from, sizeof(pack));
    return;
  }
  pack = P{};
  for (int i = 0; i < kLanes<T>; ++i) {
    pack[i] = i < count ? from[i] : rest;
  }
}

template <typename P, typename T>
WEFT_INLINE inline void store(T* to, const P& pack, int count) {
  if (count == kLanes<T>) {
    std::memcpy(to, &pack, sizeof(pack));
    return;
  }
  for (int i = 0; i < count; ++i) {
    to[i] = pack[i];
  }
}

/// The same from and to bf16.
using Bf16Bits __attribute__((vector_size(16))) = std::uint16_t;

WEFT_INLINE inline void load(Pack<float>& pack, const Bf16* from, int count, float rest = 0) {
  if (count < kLanes<float>) {
    for (int i = 0; i < kLanes<float>; ++i) {
      pack[i] = i < count ? widen(from[i]) : rest;
    }
    return;
  }
  Bf16Bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  const Pack<std::uint32_t> wide = __builtin_convertvector(bits, Pack<std::uint32_t>) << 16U;
  std::memcpy(&pack, &wide, sizeof(pack));
}

WEFT_INLINE inline void store(Bf16* to, const Pack<float>& pack, int count) {
  Pack<std::uint32_t> bits;
  std::memcpy(&bits, &pack, sizeof(bits));
  bits = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  bits = pack != pack ? Pack<std::uint32_t>{} + 0x7FC0U : bits;
  const Bf16Bits narrowed = __builtin_convertvector(bits, Bf16Bits);
  std::memcpy(static_cast<void*>(to), &narrowed, static_cast<std::size_t>(count) * sizeof(Bf16));
}

/// Calls body(j, count) for entries [j, j + count), where count is all lanes but for the last call.
template <typename T, typename Body>
WEFT_INLINE inline void for_packs(std::int64_t n, const Body& body) {
  std::int64_t j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) {
    body(j, kLanes<T>);
  }
  if (j < n) {
    body(j, static_cast<int>(n - j));
  }
}

template <typename T>
[[nodiscard]] WEFT_INLINE inline T sum_lanes(const Pack<T>& pack) {
  T sum = 0;
  for (int i = 0; i < kLanes<T>; ++i) {
    sum += pack[i];
  }
  return sum;
}

template <typename T>
[[nodiscard]] WEFT_INLINE inline T max_lanes(const Pack<T>& pack) {
  T top = pack[0];
  for (int i = 1; i < kLanes<T>; ++i) {
    top = pack[i] > top ? pack[i] : top;
  }
  return top;
}

/// In place, within 2 ulp: eˣ = 2ⁿ eʳ with n = round(x / ln 2) and a polynomial for eʳ, |r| <= ln 2
/// / 2. Zero below -87.7, so exp(-inf) = 0; x must be below 88.
WEFT_INLINE inline void exp_pack(Pack<float>& x) {
  constexpr float kRound = 12582912.0F;  // 1.5 · 2²³: adding it leaves the integer in the low bits
  x = x < -88.0F ? Pack<float>{} - 88.0F : x;  // there n = -127, whose power of two is all zeros
  const Pack<float> shifted = x * 1.44269504F + kRound;
  const Pack<float> n = shifted - kRound;
  const Pack<float> r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  Pack<float> p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  Pack<std::uint32_t> power;
  std::memcpy(&power, &shifted, sizeof(power));
  power = (power + 127U) << 23U;
  std::memcpy(&x, &power, sizeof(x));
  x *= p;
}
WEFT_INLINE inline void exp_pack(Pack<double>& x) {
  for (int i = 0; i < kLanes<double>; ++i) {
    x[i] = std::exp(x[i]);
  }
}

/// In place: 1 / (1 + e⁻ˣ). e⁸⁷ is as good as infinity beside 1.
template <typename T>
WEFT_INLINE inline void sigmoid_pack(Pack<T>& x) {
  x = -x;
  x = x > T{87} ? Pack<T>{} + T{87} : x;
  exp_pack(x);
  x = T{1} / (x + T{1});
}

/// In place. std::sqrt sets errno, which keeps compilers from making it vector code; every x86-64
/// has that of 16 bytes.
#if defined(__x86_64__)
WEFT_INLINE inline void sqrt_pack(Pack<float>& x) {
  const __m128 low = _mm_sqrt_ps(__builtin_shufflevector(x, x, 0, 1, 2, 3));
  const __m128 high = _mm_sqrt_ps(__builtin_shufflevector(x, x, 4, 5, 6, 7));
  x = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}
WEFT_INLINE inline void sqrt_pack(Pack<double>& x) {
  const __m128d low = _mm_sqrt_pd(__builtin_shufflevector(x, x, 0, 1));
  const __m128d high = _mm_sqrt_pd(__builtin_shufflevector(x, x, 2, 3));
  x = __builtin_shufflevector(low, high, 0, 1, 2, 3);
}
#else
template <typename P>
WEFT_INLINE inline void sqrt_pack(P& x) {
  for (std::size_t i = 0; i < sizeof(P) / sizeof(x[0]); ++i) {
    x[i] = std::sqrt(x[i]);
  }
}
#endif

#if defined(__x86_64__)
template <typename Body>
__attribute__((target("avx2,fma"))) auto run_avx2(const Body& body) {
  return body();
}
[[nodiscard]] inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has;
}
#endif

/// Runs a body (a lambda marked WEFT_INLINE) compiled for the processor at hand.
template <typename Body>
auto run_simd(const Body& body) {
#if defined(__x86_64__)
  if (has_avx2()) {
    return run_avx2(body);
  }
#endif
  return body();
}

}  // namespace weft::ops
