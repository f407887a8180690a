#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/ops/attention.h"
#include "weft/ops/dtypes.aten.h"
#include "weft/ops/simd.h"

// What attention_backward works with: a row of its tiles, its scratch memory, and where it sums.
namespace weft::ops {

// A row of scores becomes P, with the dropout factors m if there are any, and one of dout vᵀ
// becomes dS.
template <typename W>
struct RowGrad {
  W* p = nullptr;
  W* ds = nullptr;
  std::int64_t n = 0;
  W lse = 0;
  W delta = 0;

  void run() const {
    run_simd([row = *this]() WEFT_INLINE {
      for_packs<W>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<W> probability;
        Pack<W> grad;
        load(probability, row.p + j, count);
        load(grad, row.ds + j, count);
        probability -= row.lse;
        exp_pack(probability);
        grad = probability * (grad - row.delta);
        store(row.p + j, probability, count);
        store(row.ds + j, grad, count);
      });
    });
  }
  void run(const W* factors) const {
    run_simd([row = *this, factors]() WEFT_INLINE {
      for_packs<W>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<W> probability;
        Pack<W> grad;
        Pack<W> m;
        load(probability, row.p + j, count);
        load(grad, row.ds + j, count);
        load(m, factors + j, count);
        probability -= row.lse;
        exp_pack(probability);
        grad = probability * (grad * m - row.delta);
        probability *= m;
        store(row.p + j, probability, count);
        store(row.ds + j, grad, count);
      });
    });
  }
};

// The scratch memory of a task; all but the first two are used in bf16 only.
template <typename W>
struct Scratch {
  W* p = nullptr;
  W* ds = nullptr;
  W* q = nullptr;
  W* dq = nullptr;
  W* dout = nullptr;
  W* k = nullptr;
  W* v = nullptr;
  W* dk = nullptr;  // of all keys
  W* dv = nullptr;

  Scratch(const AttentionSizes& a, W* memory) {
    const std::int64_t rows = std::min(a.s, kAttentionRows);
    const std::int64_t width = std::min(a.t, kAttentionKeys);
    const auto take = [&memory](std::int64_t size) { return std::exchange(memory, memory + size); };
    p = take(rows * width);
    ds = take(rows * width);
    if (a.narrow) {
      q = take(rows * a.d);
      dq = take(rows * a.d);
      dout = take(rows * a.e);
      k = take(width * a.d);
      v = take(width * a.e);
      dk = take(a.t * a.d);
      dv = take(a.t * a.e);
    }
  }
};

// Where a gradient is summed: in its tensor, or in scratch memory.
template <typename W>
struct Target {
  W* data = nullptr;
  std::int64_t stride = 0;

  [[nodiscard]] W* row(std::int64_t i) const { return data + i * stride; }
};

template <typename T>
Target<Wide<T>> target(T* tensor, std::int64_t stride, Wide<T>* copy, std::int64_t columns) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    return {tensor, stride};
  } else {
    return {copy, columns};
  }
}

// Writes what was summed in scratch memory; does nothing if it was summed in the tensor.
template <typename T>
void write_rows(T* tensor, std::int64_t stride, const Wide<T>* copy, std::int64_t rows,
                std::int64_t columns) {
  if constexpr (!std::is_same_v<T, Wide<T>>) {
    for (std::int64_t i = 0; i < rows; ++i) {
      copy_narrow(tensor + i * stride, copy + i * columns, columns);
    }
  }
}

}  // namespace weft::ops
