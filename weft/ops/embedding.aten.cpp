// Forward: row i of y is row ids[i] of the table; zero if that row lies on another device.
//
// Gradient: row ids[i] of the table's gradient gets row i of dy. The rows of dy are first put in
// the order of their ids; then each row of the table is summed in f32 (f64) and written once.
// Threads share out the columns: each adds its part of all rows in their order, so the sum is the
// same for any number of threads.

#include "weft/kernels/torch_headers.h"

#include <cstring>

#include "weft/ops/dtypes.aten.h"

namespace weft::ops {
namespace {

// The rows [begin, begin + rows) of a table of `whole` that this device has.
struct TableRows {
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  std::int64_t whole = 0;

  // The local row of an id, or -1 if another device has it.
  [[nodiscard]] std::int64_t row(std::int64_t id) const {
    require(id >= 0 && id < whole, "embedding: id {} is outside of a table of {} rows", id, whole);
    return id >= begin && id < begin + rows ? id - begin : -1;
  }
};

// Without regions the local table is the whole one.
TableRows rows_of(std::int64_t rows, const std::vector<Region>& regions,
                  const std::vector<Shape>& whole) {
  return regions.empty()
             ? TableRows{.begin = 0, .rows = rows, .whole = rows}
             : TableRows{.begin = regions[0][0].begin, .rows = rows, .whole = whole[0][0].size};
}

// Rows of dy by row of the table: those of row v are order[begin[v]] … order[begin[v + 1] - 1], in
// their order.
struct ById {
  at::Tensor begin;
  at::Tensor order;
};

ById sort_by_id(const at::Tensor& ids, const TableRows& table) {
  const std::int64_t count = ids.numel();
  const std::int64_t* const id = ids.data_ptr<std::int64_t>();
  ById sorted{at::zeros({table.rows + 1}, at::kLong), at::empty({count}, at::kLong)};
  std::int64_t* const begin = sorted.begin.data_ptr<std::int64_t>();
  std::int64_t* const order = sorted.order.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    if (const std::int64_t row = table.row(id[i]); row >= 0) {
      ++begin[row];
    }
  }
  std::int64_t sum = 0;
  for (std::int64_t v = 0; v <= table.rows; ++v) {
    sum += begin[v];
    begin[v] = sum;  // the end of v for now; filling from the back makes it the begin
  }
  for (std::int64_t i = count - 1; i >= 0; --i) {
    if (const std::int64_t row = table.row(id[i]); row >= 0) {
      order[--begin[row]] = i;
    }
  }
  return sorted;
}

constexpr int kPacks = 4;

// Columns [j, j + count) of one row of the table: the sum of `terms` rows of dy.
template <typename T>
struct RowSum {
  const T* dy = nullptr;
  std::int64_t h = 0;
  const std::int64_t* order = nullptr;
  std::int64_t terms = 0;

  WEFT_INLINE void write(T* to, std::int64_t j, std::int64_t count) const {
    Pack<Wide<T>> sums[kPacks] = {};
    for (std::int64_t i = 0; i < terms; ++i) {
      const T* const from = dy + order[i] * h + j;
      for_packs<T>(count, [&](std::int64_t k, int lanes) WEFT_INLINE {
        Pack<Wide<T>> x = {};
        load(x, from + k, lanes);
        sums[k / kLanes<T>] += x;
      });
    }
    for_packs<T>(count, [&](std::int64_t k, int lanes)
                            WEFT_INLINE { store(to + j + k, sums[k / kLanes<T>], lanes); });
  }
};

template <typename T>
Tensors add_rows(const KernelCall& call) {
  const TensorType& type = call.call.outputs[0];
  const std::int64_t rows = type.size(0);
  const std::int64_t h = type.size(1);
  const at::Tensor grad = at::empty({rows, h}, call.inputs[0].options());
  const ById sorted =
      sort_by_id(call.inputs[1], rows_of(rows, call.env.outputs, call.env.whole_outputs));
  const T* const dy = data_of<T>(call.inputs[0]);
  const std::int64_t* const first = sorted.begin.data_ptr<std::int64_t>();
  const std::int64_t* const order = sorted.order.data_ptr<std::int64_t>();
  T* const out = data_of<T>(grad);
  at::parallel_for(0, h, 64, [=](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
      for (std::int64_t v = 0; v < rows; ++v) {
        const RowSum<T> sum{dy, h, order + first[v], first[v + 1] - first[v]};
        for (std::int64_t j = begin; j < end; j += kPacks * kLanes<T>) {
          sum.write(out + v * h, j, std::min<std::int64_t>(kPacks * kLanes<T>, end - j));
        }
      }
    });
  });
  return {grad};
}

}  // namespace

Tensors embedding_kernel(const KernelCall& call) {
  const at::Tensor& table = call.inputs[0];
  const at::Tensor y = output_of(call, 0);
  const TableRows rows = rows_of(table.size(0), call.env.inputs, call.env.whole_inputs);
  const auto bytes = static_cast<std::size_t>(table.size(1) * table.element_size());
  const auto* const from = static_cast<const char*>(table.data_ptr());
  auto* const to = static_cast<char*>(y.data_ptr());
  const std::int64_t* const id = call.inputs[1].data_ptr<std::int64_t>();
  at::parallel_for(0, call.inputs[1].numel(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end && bytes > 0; ++i) {
      const std::int64_t row = rows.row(id[i]);
      char* const target = to + static_cast<std::size_t>(i) * bytes;
      if (row >= 0) {
        std::memcpy(target, from + static_cast<std::size_t>(row) * bytes, bytes);
      } else {
        std::memset(target, 0, bytes);
      }
    }
  });
  return {y};
}

Tensors embedding_weight_grad_kernel(const KernelCall& call) {
  return for_floating(call, "embedding_weight_grad", 0,
                      [&](auto t) { return add_rows<decltype(t)>(call); });
}

}  // namespace weft::ops
