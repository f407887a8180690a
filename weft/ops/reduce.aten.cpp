// Sums go to ATen, but for those to a single number: there it takes a buffer with an entry a
// thread, which no plan could state. Products and extremes are loops over the elements of each
// result, in order: exact for extremes, and the same for any number of threads.
#include "weft/kernels/torch_headers.h"

#include <cmath>

#include "weft/kernels/kernel.h"
#include "weft/ops/chunk_sum.aten.h"
#include "weft/ops/coded.h"
#include "weft/ops/elementwise.aten.h"

namespace weft::ops {
namespace {

/// Some dims of a tensor, as the offsets of their elements in row-major order.
struct Offsets {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  void add(const at::Tensor& x, std::int64_t dim) {
    sizes.push_back(x.size(dim));
    strides.push_back(x.stride(dim));
  }
  [[nodiscard]] std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t size : sizes) {
      n *= size;
    }
    return n;
  }
  [[nodiscard]] std::int64_t at(std::int64_t index) const {
    std::int64_t offset = 0;
    for (std::size_t d = sizes.size(); d-- > 0; index /= sizes[d]) {
      offset += index % sizes[d] * strides[d];
    }
    return offset;
  }
};

/// The elements of x that make result i are x[kept.at(i) + reduced[j]].
struct Groups {
  Offsets kept;
  std::vector<std::int64_t> reduced;
};

std::vector<std::int64_t> reduced_dims(const KernelCall& call, const at::Tensor& x) {
  std::vector<std::int64_t> dims;
  for (const std::int64_t dim : attr_ints(call.call.attrs, "dims")) {
    dims.push_back(dim < 0 ? dim + x.dim() : dim);
  }
  return dims;
}

Groups groups_of(const KernelCall& call, const at::Tensor& x) {
  const std::vector<std::int64_t> dims = reduced_dims(call, x);
  Groups groups;
  Offsets inner;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    const bool is_reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    (is_reduced ? inner : groups.kept).add(x, d);
  }
  groups.reduced.resize(static_cast<std::size_t>(inner.count()));
  for (std::size_t j = 0; j < groups.reduced.size(); ++j) {
    groups.reduced[j] = inner.at(static_cast<std::int64_t>(j));
  }
  return groups;
}

template <typename F>
void for_groups(const Groups& groups, const F& f) {
  const auto length = static_cast<std::int64_t>(groups.reduced.size());
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, length));
  at::parallel_for(0, groups.kept.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      f(i, groups.kept.at(i));
    }
  });
}

template <typename T, typename F>
void fold_groups(const Groups& groups, const at::Tensor& x, at::Tensor& y, const F& f) {
  const T* from = x.data_ptr<T>();
  T* to = y.data_ptr<T>();
  for_groups(groups, [&](std::int64_t i, std::int64_t base) {
    auto value = as_number(from[base + groups.reduced[0]]);
    for (std::size_t j = 1; j < groups.reduced.size(); ++j) {
      value = f(value, as_number(from[base + groups.reduced[j]]));
    }
    to[i] = static_cast<T>(value);
  });
}

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return std::isnan(x);
  }
}

void fold(const std::string& function, const Groups& groups, const at::Tensor& x, at::Tensor& y) {
  visit_number(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = at::opmath_type<T>;
    if (function == "max") {
      fold_groups<T>(groups, x, y, [](W a, W b) { return a > b || is_nan(a) ? a : b; });
    } else if (function == "min") {
      fold_groups<T>(groups, x, y, [](W a, W b) { return a < b || is_nan(a) ? a : b; });
    } else {
      fold_groups<T>(groups, x, y, [](W a, W b) { return a * b; });
    }
  });
}

void sum_into(const KernelCall& call, at::Tensor& y) {
  const at::Tensor& x = call.inputs[0];
  const std::vector<std::int64_t> dims = reduced_dims(call, x);
  if (dims.empty()) {
    y.copy_(x);
  } else if (y.numel() == 1 && at::isFloatingType(x.scalar_type())) {
    visit_floating(x, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const double sum = chunked_sum<T>(x, [](Pack<double>& /*value*/) WEFT_INLINE {});
      *y.data_ptr<T>() = static_cast<T>(sum);
    });
  } else {
    at::sum_out(y, x, dims, attr_int(call.call.attrs, "keep") == 1, x.scalar_type());
  }
}

// Of the whole tensor: a device may have a part of it.
double whole_count(const KernelCall& call) {
  const Shape& shape =
      call.env.whole_inputs.empty() ? call.call.inputs[0].shape : call.env.whole_inputs[0];
  double count = 1;
  for (const std::int64_t dim : reduced_dims(call, call.inputs[0])) {
    count *= static_cast<double>(shape[static_cast<std::size_t>(dim)].size);
  }
  return count;
}

// dx of one result of max or min: equal ones share.
template <typename T>
void share(const Groups& groups, std::int64_t base, const T* x, T y, T dy, T* dx) {
  double ties = 0;
  for (const std::int64_t at : groups.reduced) {
    ties += x[base + at] == y ? 1 : 0;
  }
  const T part = static_cast<T>(static_cast<double>(dy) / ties);
  for (const std::int64_t at : groups.reduced) {
    dx[base + at] = x[base + at] == y ? part : T(0);
  }
}

// dx of one product: y / x, but with one zero among the factors only that one has a gradient, and
// with two none.
template <typename T>
void others(const Groups& groups, std::int64_t base, const T* x, T dy, T* dx) {
  using W = at::opmath_type<T>;
  W product = 1;
  int zeros = 0;
  for (const std::int64_t at : groups.reduced) {
    const W v = as_number(x[base + at]);
    zeros += v == 0 ? 1 : 0;
    product *= v == 0 ? W(1) : v;
  }
  for (const std::int64_t at : groups.reduced) {
    const W v = as_number(x[base + at]);
    const W rest = zeros == 0 ? product / v : zeros == 1 && v == 0 ? product : W(0);
    dx[base + at] = static_cast<T>(as_number(dy) * rest);
  }
}

}  // namespace

Tensors reduce_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const std::string& function = attr_text(call.call.attrs, "function");
  std::vector<std::int64_t> sizes;
  for (const Dim dim : call.call.outputs[0].shape) {
    sizes.push_back(dim.size);
  }
  at::Tensor y = at::empty(sizes, x.options());
  if (function != "sum" && function != "mean") {
    fold(function, groups_of(call, x), x, y);
    return {y};
  }
  sum_into(call, y);
  if (function == "mean") {
    visit_floating(y, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto share = static_cast<at::opmath_type<T>>(1 / whole_count(call));
      map_into<T, T>(y, y, [share](auto v) { return v * share; });
    });
  }
  return {y};
}

Tensors reduce_backward_kernel(const KernelCall& call) {
  const at::Tensor& x = call.inputs[1];
  at::Tensor grad = at::empty_like(x);
  const Groups groups = groups_of(call, x);
  const bool is_product = attr_text(call.call.attrs, "function") == "prod";
  visit_floating(x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = call.inputs[0].data_ptr<T>();
    const T* from = x.data_ptr<T>();
    const T* y = call.inputs[2].data_ptr<T>();
    T* dx = grad.data_ptr<T>();
    for_groups(groups, [&](std::int64_t i, std::int64_t base) {
      if (is_product) {
        others<T>(groups, base, from, dy[i], dx);
      } else {
        share<T>(groups, base, from, y[i], dy[i], dx);
      }
    });
  });
  return {grad};
}

}  // namespace weft::ops
