#include "weft/kernels/torch_headers.h"

#include <cmath>
#include <numeric>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kGrain = 16384;

/// A tensor as matrices that lie one behind the other.
struct Matrices {
  std::int64_t rows = 1;    // of all matrices
  std::int64_t height = 1;  // of one
  std::int64_t columns = 1;
};

Matrices matrices_of(const at::Tensor& x) {
  const std::int64_t columns = x.size(-1);
  return {.rows = columns == 0 ? 0 : x.numel() / columns, .height = x.size(-2), .columns = columns};
}

std::int64_t rows_at_once(const Matrices& m) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, m.columns));
}

template <typename T>
T scalar_or_one(const KernelCall& call, std::size_t i) {
  return call.inputs.size() > i ? call.inputs[i].item<T>() : T(1);
}

template <typename Run>
auto for_dtype(const KernelCall& call, const Run& run) {
  return call.inputs[0].scalar_type() == at::kDouble ? run(double{}) : run(float{});
}

template <typename T>
void sum_rows(const at::Tensor& g, T clip, double epsilon, double scale, const at::Tensor& out) {
  const Matrices m = matrices_of(g);
  const T* data = g.data_ptr<T>();
  T* sums = out.data_ptr<T>();
  at::parallel_for(0, m.rows, rows_at_once(m), [=](std::int64_t begin, std::int64_t end) {
    run_simd([=]() WEFT_INLINE {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* row = data + i * m.columns;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < m.columns; ++j) {
          const double x = static_cast<double>(row[j] * clip);
          sum += x * x + epsilon;
        }
        sums[i] = static_cast<T>(sum * scale);
      }
    });
  });
}

// A task has some columns and walks down the rows, so the order of a column's sum is always the
// same.
template <typename T>
void sum_columns(const at::Tensor& g, T clip, double epsilon, double scale, const at::Tensor& out) {
  const Matrices m = matrices_of(g);
  const T* data = g.data_ptr<T>();
  T* sums = out.data_ptr<T>();
  const std::int64_t grain = std::max<std::int64_t>(16, kGrain / std::max<std::int64_t>(1, m.rows));
  at::parallel_for(0, m.columns, grain, [=](std::int64_t begin, std::int64_t end) {
    std::vector<double> sum(static_cast<std::size_t>(end - begin));
    double* s = sum.data();
    for (std::int64_t top = 0; top < m.rows; top += m.height) {
      std::fill(sum.begin(), sum.end(), epsilon * static_cast<double>(m.height));
      run_simd([=]() WEFT_INLINE {
        for (std::int64_t i = top; i < top + m.height; ++i) {
          const T* row = data + i * m.columns;
#pragma omp simd
          for (std::int64_t j = begin; j < end; ++j) {
            const double x = static_cast<double>(row[j] * clip);
            s[j - begin] += x * x;
          }
        }
      });
      for (std::int64_t j = begin; j < end; ++j) {
        sums[top / m.height * m.columns + j] = static_cast<T>(s[j - begin] * scale);
      }
    }
  });
}

template <typename T>
void squares(const at::Tensor& g, T clip, double epsilon, double scale, const at::Tensor& out) {
  const T* data = g.data_ptr<T>();
  T* result = out.data_ptr<T>();
  at::parallel_for(0, g.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double x = static_cast<double>(data[i] * clip);
      result[i] = static_cast<T>((x * x + epsilon) * scale);
    }
  });
}

/// The second moments of a gradient, as the ops get them.
template <typename T>
struct Second {
  bool factored = false;
  const T* rows = nullptr;  // or the moments of all elements
  const T* means = nullptr;
  std::vector<T> columns = {T(1)};  // 1 / sqrt
};

template <typename T>
Second<T> second_at(const KernelCall& call, std::size_t first) {
  Second<T> s{.factored = attr_int(call.call.attrs, "factored") == 1,
              .rows = call.inputs[first].data_ptr<T>()};
  if (s.factored) {
    const at::Tensor& columns = call.inputs[first + 1];
    s.columns.assign(columns.data_ptr<T>(), columns.data_ptr<T>() + columns.numel());
    for (T& c : s.columns) {
      c = 1 / std::sqrt(c);
    }
    s.means = call.inputs[first + 2].data_ptr<T>();
  }
  return s;
}

/// A vector has a moment for each element: rows of one column.
template <typename T>
Matrices shape_of(const at::Tensor& g, const Second<T>& s) {
  return s.factored ? matrices_of(g)
                    : Matrices{.rows = g.numel(), .height = g.numel(), .columns = 1};
}

template <typename T>
const T* columns_of(const Second<T>& s, const Matrices& m, std::int64_t row) {
  return s.columns.data() + (s.factored ? row / m.height * m.columns : 0);
}

/// What the gradients of row i are multiplied by, but for the columns' part.
template <typename T>
T row_scale(const Second<T>& s, std::int64_t i, std::int64_t height, T clip) {
  const T moment = s.factored ? s.rows[i] / s.means[i / height] : s.rows[i];
  return clip / std::sqrt(moment);
}

template <typename T>
double row_norm(const T* g, const T* columns, T scale, std::int64_t count) {
  return run_simd([=]() WEFT_INLINE {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < count; ++j) {
      const T u = g[j] * scale * columns[j];
      sum += static_cast<double>(u) * static_cast<double>(u);
    }
    return sum;
  });
}

// Sums of rows are added in order: the number of threads does not matter.
template <typename T>
double norm(const KernelCall& call) {
  const at::Tensor& g = call.inputs[0];
  const Second<T> s = second_at<T>(call, 1);
  const T clip = scalar_or_one<T>(call, s.factored ? 4 : 2);
  const Matrices m = shape_of(g, s);
  const T* data = g.data_ptr<T>();
  std::vector<double> sums(static_cast<std::size_t>(m.rows));
  at::parallel_for(0, m.rows, rows_at_once(m), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* columns = columns_of(s, m, i);
      sums[static_cast<std::size_t>(i)] =
          row_norm(data + i * m.columns, columns, row_scale(s, i, m.height, clip), m.columns);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

template <typename T>
void update(const KernelCall& call) {
  const at::Tensor& g = call.inputs[1];
  const Second<T> s = second_at<T>(call, 2);
  const std::size_t scalars = s.factored ? 5 : 3;
  const double rms = std::sqrt(call.inputs[scalars].item<double>());
  const double lr = call.inputs[scalars + 1].item<double>();
  const T clip = scalar_or_one<T>(call, scalars + 2);
  const Attrs& attrs = call.call.attrs;
  const T keep = static_cast<T>(1 - lr * attr_number(attrs, "weight_decay"));
  const double over = rms / attr_number(attrs, "threshold");
  const T rate = static_cast<T>(lr / (over <= 1 ? 1.0 : over));  // not a number stays none
  const Matrices m = shape_of(g, s);
  T* weights = call.inputs[0].data_ptr<T>();
  const T* gradients = g.data_ptr<T>();
  at::parallel_for(0, m.rows, rows_at_once(m), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* columns = columns_of(s, m, i);
      const T scale = rate * row_scale(s, i, m.height, clip);
      T* w = weights + i * m.columns;
      const T* row = gradients + i * m.columns;
      const std::int64_t count = m.columns;
      run_simd([=]() WEFT_INLINE {
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j) {
          w[j] = w[j] * keep - row[j] * scale * columns[j];
        }
      });
    }
  });
}

std::vector<std::int64_t> output_sizes(const KernelCall& call) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : call.call.outputs[0].shape) {
    sizes.push_back(dim.size);
  }
  return sizes;
}

}  // namespace

Tensors adafactor_moment_kernel(const KernelCall& call) {
  const Attrs& attrs = call.call.attrs;
  const std::int64_t over = attr_int(attrs, "over");
  const double epsilon = attr_number(attrs, "epsilon");
  const double scale = attr_number(attrs, "scale");
  const at::Tensor& g = call.inputs[0];
  const at::Tensor out = at::empty(output_sizes(call), g.options());
  for_dtype(call, [&](auto zero) {
    using T = decltype(zero);
    const T clip = scalar_or_one<T>(call, 1);
    if (over == 0) {
      squares<T>(g, clip, epsilon, scale, out);
    } else if (over == -1) {
      sum_rows<T>(g.dim() < 2 ? g.view({1, g.numel()}) : g, clip, epsilon, scale, out);
    } else {
      sum_columns<T>(g, clip, epsilon, scale, out);
    }
  });
  return {out};
}

Tensors adafactor_average_kernel(const KernelCall& call) {
  const double step = call.inputs[2].item<double>();
  const double fresh = std::pow(step, -attr_number(call.call.attrs, "decay"));  // 1 - beta
  for_dtype(call, [&](auto zero) {
    using T = decltype(zero);
    T* average = call.inputs[0].data_ptr<T>();
    const T* value = call.inputs[1].data_ptr<T>();
    const T beta = static_cast<T>(1 - fresh);
    const T rest = static_cast<T>(fresh);
    for (std::int64_t i = 0; i < call.inputs[0].numel(); ++i) {
      average[i] = average[i] * beta + value[i] * rest;
    }
  });
  return {call.inputs[0]};
}

Tensors adafactor_row_mean_kernel(const KernelCall& call) {
  const at::Tensor& r = call.inputs[0];
  const double scale = attr_number(call.call.attrs, "scale");
  const at::Tensor out = at::empty(output_sizes(call), r.options());
  const std::int64_t height = r.size(-1);
  for_dtype(call, [&](auto zero) {
    using T = decltype(zero);
    const T* data = r.data_ptr<T>();
    for (std::int64_t k = 0; k < out.numel(); ++k) {
      const double sum = std::accumulate(data + k * height, data + (k + 1) * height, 0.0);
      out.data_ptr<T>()[k] = static_cast<T>(sum * scale);
    }
  });
  return {out};
}

Tensors adafactor_norm_kernel(const KernelCall& call) {
  const double sum = for_dtype(call, [&](auto zero) { return norm<decltype(zero)>(call); });
  return {at::scalar_tensor(sum * attr_number(call.call.attrs, "scale"), call.inputs[0].options())};
}

Tensors adafactor_kernel(const KernelCall& call) {
  for_dtype(call, [&](auto zero) { update<decltype(zero)>(call); });
  return {call.inputs[0]};
}

}  // namespace weft::ops
