// Convolutions as products of matrices (the idea is in conv.h). Why not at::convolution: oneDNN's
// kernels reorder weights and their gradients at every call, which for the small images and many
// channels of deep layers costs ten times the arithmetic; its gradients ask for tensors that we do
// not have; and for f64 the memory of ATen's own kernels depends on the number of threads. Columns
// of NHWC images are copies of long runs, so little is lost beside the product.

#include "weft/ops/conv_columns.aten.h"
#include "weft/ops/conv_depthwise.aten.h"
#include "weft/ops/gemm.h"

namespace weft::ops {
namespace {

// Workspace, as conv_*_bytes state it; undefined where it is not needed.
template <typename W>
struct Buffers {
  at::Tensor columns;
  at::Tensor weights;
  at::Tensor outputs;  // a block of y or dy, where T is narrower than W

  Buffers(const ConvSizes& s, const ConvMethod& m) {
    if (!m.pointwise) {
      columns = scratch<W>(m.block_rows * s.depth() * s.groups);
    }
    if (m.copies_weights) {
      weights = scratch<W>(s.filters * s.depth());
    }
    if (m.narrow) {
      outputs = scratch<W>(m.block_rows * s.filters);
    }
  }
};

// T is W here, which only the compiler cannot know where T is narrow.
template <typename T>
Wide<T>* as_wide(T* data) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    return data;
  }
  return nullptr;
}

template <typename W>
void fill_rows(W* y, const W* bias, std::int64_t rows, std::int64_t n) {
  at::parallel_for(0, rows, grain(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy(bias, bias + n, y + i * n);
    }
  });
}

template <typename T>
std::vector<Wide<T>> wide_copy(const at::Tensor& from) {
  std::vector<Wide<T>> to(static_cast<std::size_t>(from.numel()));
  convert(to.data(), from.data_ptr<T>(), from.numel());
  return to;
}

template <typename Body>
void for_blocks(const ConvSizes& s, const ConvMethod& m, const Body& body) {
  for (std::int64_t first = 0; first < s.rows(); first += m.block_rows) {
    body(first, std::min(m.block_rows, s.rows() - first));
  }
}

template <typename T>
const Wide<T>* columns_of(const ConvSizes& s, const ConvMethod& m, Buffers<Wide<T>>& buffers,
                          const T* x, std::int64_t first, std::int64_t count) {
  if (m.pointwise) {
    return as_wide(const_cast<T*>(x)) + first * s.channels;
  }
  auto* const columns = buffers.columns.template data_ptr<Wide<T>>();
  fill_columns(s, m, x, first, count, columns);
  return columns;
}

template <typename T>
const Wide<T>* weights_of(const ConvSizes& s, const ConvMethod& m, Buffers<Wide<T>>& buffers,
                          const T* w) {
  if (!m.copies_weights) {
    return as_wide(const_cast<T*>(w));
  }
  auto* const packed = buffers.weights.template data_ptr<Wide<T>>();
  pack_weights(s, m, w, packed);
  return packed;
}

// ---- the three products, group by group; columns [rows, groups depth], y [rows, filters]
// ---------

template <typename W>
void outputs_of_columns(const ConvSizes& s, std::int64_t rows, const W* columns, const W* w, W* y,
                        W beta) {
  const std::int64_t filters = s.filters / s.groups;
  const std::int64_t depth = s.depth();
  for (std::int64_t g = 0; g < s.groups; ++g) {
    gemm(Gemm<W>{.m = rows,
                 .n = filters,
                 .k = depth,
                 .a = {columns + g * depth, depth * s.groups},
                 .b = {w + g * filters * depth, depth, true},
                 .c = y + g * filters,
                 .c_stride = s.filters,
                 .beta = beta});
  }
}

template <typename W>
void columns_of_outputs(const ConvSizes& s, std::int64_t rows, const W* dy, const W* w, W* columns,
                        W beta) {
  const std::int64_t filters = s.filters / s.groups;
  const std::int64_t depth = s.depth();
  for (std::int64_t g = 0; g < s.groups; ++g) {
    gemm(Gemm<W>{.m = rows,
                 .n = depth,
                 .k = filters,
                 .a = {dy + g * filters, s.filters},
                 .b = {w + g * filters * depth, depth},
                 .c = columns + g * depth,
                 .c_stride = depth * s.groups,
                 .beta = beta});
  }
}

template <typename W>
void weights_of_both(const ConvSizes& s, std::int64_t rows, const W* dy, const W* columns, W* dw,
                     W beta) {
  const std::int64_t filters = s.filters / s.groups;
  const std::int64_t depth = s.depth();
  for (std::int64_t g = 0; g < s.groups; ++g) {
    gemm(Gemm<W>{.m = filters,
                 .n = depth,
                 .k = rows,
                 .a = {dy + g * filters, s.filters, true},
                 .b = {columns + g * depth, depth * s.groups},
                 .c = dw + g * filters * depth,
                 .c_stride = depth,
                 .beta = beta});
  }
}

// ---- kernels
// -------------------------------------------------------------------------------------

template <typename T>
Tensors forward(const KernelCall& call, const ConvSizes& s, const ConvMethod& m) {
  using W = Wide<T>;
  const at::Tensor y = output_of(call, 0);
  Buffers<W> buffers(s, m);
  const W* const w = weights_of(s, m, buffers, call.inputs[1].data_ptr<T>());
  const bool has_bias = call.inputs.size() == 3;
  const std::vector<W> bias = has_bias ? wide_copy<T>(call.inputs[2]) : std::vector<W>{};
  for_blocks(s, m, [&](std::int64_t first, std::int64_t count) {
    T* const to = y.data_ptr<T>() + first * s.filters;
    W* const block = m.narrow ? buffers.outputs.template data_ptr<W>() : as_wide(to);
    if (has_bias) {
      fill_rows(block, bias.data(), count, s.filters);
    }
    const W* const columns = columns_of(s, m, buffers, call.inputs[0].data_ptr<T>(), first, count);
    outputs_of_columns<W>(s, count, columns, w, block, has_bias ? W{1} : W{0});
    if (m.narrow) {
      convert(to, block, count * s.filters);
    }
  });
  return {y};
}

// Also conv_transpose, whose bias is what dx begins with.
template <typename T>
Tensors input_grad(const KernelCall& call, const ConvSizes& s, const ConvMethod& m) {
  using W = Wide<T>;
  const at::Tensor dx = output_of(call, 0);
  const at::Tensor wide = m.narrow ? scratch<W>(dx.numel()) : dx;
  W* const sum = wide.data_ptr<W>();
  const std::vector<W> bias = call.inputs.size() == 3
                                  ? wide_copy<T>(call.inputs[2])
                                  : std::vector<W>(static_cast<std::size_t>(s.channels), W{0});
  fill_rows(sum, bias.data(), dx.numel() / std::max<std::int64_t>(s.channels, 1), s.channels);
  Buffers<W> buffers(s, m);
  const W* const w = weights_of(s, m, buffers, call.inputs[1].data_ptr<T>());
  for_blocks(s, m, [&](std::int64_t first, std::int64_t count) {
    T* const from = call.inputs[0].data_ptr<T>() + first * s.filters;
    W* const dy = m.narrow ? buffers.outputs.template data_ptr<W>() : as_wide(from);
    if (m.narrow) {
      convert(dy, from, count * s.filters);
    }
    if (m.pointwise) {
      columns_of_outputs(s, count, dy, w, sum + first * s.channels, W{1});
      return;
    }
    auto* const columns = buffers.columns.template data_ptr<W>();
    columns_of_outputs(s, count, dy, w, columns, W{0});
    add_columns(s, m, columns, first, count, sum);
  });
  if (m.narrow) {
    convert(dx.data_ptr<T>(), sum, dx.numel());
  }
  return {dx};
}

template <typename T>
Tensors weight_grad(const KernelCall& call, const ConvSizes& s, const ConvMethod& m) {
  using W = Wide<T>;
  const at::Tensor dw = output_of(call, 0);
  Buffers<W> buffers(s, m);
  W* const sum =
      m.copies_weights ? buffers.weights.template data_ptr<W>() : as_wide(dw.data_ptr<T>());
  for_blocks(s, m, [&](std::int64_t first, std::int64_t count) {
    T* const from = call.inputs[0].data_ptr<T>() + first * s.filters;
    W* const dy = m.narrow ? buffers.outputs.template data_ptr<W>() : as_wide(from);
    if (m.narrow) {
      convert(dy, from, count * s.filters);
    }
    const W* const columns = columns_of(s, m, buffers, call.inputs[1].data_ptr<T>(), first, count);
    weights_of_both(s, count, dy, columns, sum, first == 0 ? W{0} : W{1});
  });
  if (m.copies_weights) {
    unpack_weights(s, m, sum, dw.data_ptr<T>());
  }
  return {dw};
}

}  // namespace

Tensors conv_kernel(const KernelCall& call) {
  const OpCall& c = call.call;
  const ConvSizes s = conv_sizes(c.inputs[0], c.inputs[1], c.outputs[0], c.attrs, "conv");
  const ConvMethod m = conv_method(s, c.inputs[0].dtype);
  if (m.depthwise) {
    return depthwise_forward(call, s, m);
  }
  return with_element(call, "conv", 0, [&](auto t) { return forward<decltype(t)>(call, s, m); });
}

Tensors conv_input_grad_kernel(const KernelCall& call) {
  const OpCall& c = call.call;
  const ConvSizes s =
      conv_sizes(c.outputs[0], c.inputs[1], c.inputs[0], c.attrs, "conv_input_grad");
  const ConvMethod m = conv_method(s, c.inputs[0].dtype);
  if (m.depthwise) {
    return depthwise_input_grad(call, s, m);
  }
  return with_element(call, "conv_input_grad", 0,
                      [&](auto t) { return input_grad<decltype(t)>(call, s, m); });
}

Tensors conv_transpose_kernel(const KernelCall& call) {
  return conv_input_grad_kernel(call);
}

Tensors conv_weight_grad_kernel(const KernelCall& call) {
  const OpCall& c = call.call;
  const ConvSizes s =
      conv_sizes(c.inputs[1], c.outputs[0], c.inputs[0], c.attrs, "conv_weight_grad");
  const ConvMethod m = conv_method(s, c.inputs[0].dtype);
  if (m.depthwise) {
    return depthwise_weight_grad(call, s, m);
  }
  return with_element(call, "conv_weight_grad", 0,
                      [&](auto t) { return weight_grad<decltype(t)>(call, s, m); });
}

}  // namespace weft::ops
