// Columns are summed over the rows. Threads share out the columns, and each adds the rows in their
// order, a run of them in registers and the sums of runs in the output: the result is the same for
// any number of threads, needs no memory, and loses fewer digits than one long sum.
#include "weft/kernels/torch_headers.h"

#include <numeric>

#include "weft/kernels/kernel.h"
#include "weft/ops/chunk_sum.aten.h"
#include "weft/ops/coded.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kRun = 32;       // rows
constexpr std::int64_t kGrain = 32768;  // elements that are worth a thread

template <typename T>
struct Columns {
  const T* x = nullptr;
  T* sum = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;

  WEFT_INLINE void add(std::int64_t begin, std::int64_t end) const {
    std::fill(sum + begin, sum + end, T{0});
    for (std::int64_t row = 0; row < rows; row += kRun) {
      const std::int64_t last = std::min(rows, row + kRun);
      for_packs<T>(end - begin, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<T> total = {};
        for (std::int64_t i = row; i < last; ++i) {
          Pack<T> y = {};
          load(y, x + i * width + begin + j, count);
          total += y;
        }
        Pack<T> before = {};
        load(before, sum + begin + j, count);
        before += total;
        store(sum + begin + j, before, count);
      });
    }
  }
};

template <typename T>
Tensors sum_columns(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  at::Tensor y = output_of(call, 0);
  const std::int64_t width = y.numel();
  const Columns<T> columns{.x = x.data_ptr<T>(),
                           .sum = y.data_ptr<T>(),
                           .rows = width == 0 ? 0 : x.numel() / width,
                           .width = width};
  // Whole cache lines, so that threads do not write to each other's.
  constexpr std::int64_t kLine = 64 / sizeof(T);
  at::parallel_for(
      0, (width + kLine - 1) / kLine, 1 + kGrain / (kLine * (columns.rows + 1)),
      [=](std::int64_t begin, std::int64_t end) {
        run_simd([=]() WEFT_INLINE { columns.add(begin * kLine, std::min(end * kLine, width)); });
      });
  return {std::move(y)};
}

// ATen sums to a single number through a buffer with an entry a thread, which no plan could state.
Tensors sum_all(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  at::Tensor y = output_of(call, 0);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "sum_leading", [&] {
    const double sum = chunked_sum<scalar_t>(x, [](Pack<double>& /*value*/) WEFT_INLINE {});
    *y.data_ptr<scalar_t>() = static_cast<scalar_t>(sum);
  });
  return {std::move(y)};
}

}  // namespace

Tensors sum_leading_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const int kept = call.call.outputs[0].rank();
  if (kept == 0) {
    return sum_all(call);
  }
  if (x.scalar_type() == at::kFloat) {
    return sum_columns<float>(call);
  }
  if (x.scalar_type() == at::kDouble) {
    return sum_columns<double>(call);
  }
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.dim() - kept));
  std::iota(dims.begin(), dims.end(), 0);
  return {at::sum(x, dims)};
}

}  // namespace weft::ops
