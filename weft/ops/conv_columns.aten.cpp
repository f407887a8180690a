#include "weft/ops/conv_columns.aten.h"

namespace weft::ops {
namespace {

// One line of taps (all of them but in the last dim at a fixed place): the numbers of the taps
// `inside` come from `from`, which is the input of tap inside.begin; those of the others are zero.
struct TapLine {
  std::int64_t first = 0;  // number of the line's tap 0
  Taps inside;
};

// Order (tap, channel): where neither groups nor dilation cut it, the line is one run of x.
template <typename T>
void copy_runs(const ConvSizes& s, const TapLine& line, const T* from, Wide<T>* row) {
  const Window& w = s.windows[2];
  const std::int64_t c = s.channels / s.groups;
  const std::int64_t depth = s.depth();
  const std::int64_t step = w.dilation * s.channels;
  for (std::int64_t g = 0; g < s.groups; ++g) {
    Wide<T>* const to = row + g * depth + line.first * c;
    std::fill(to, to + line.inside.begin * c, Wide<T>{0});
    std::fill(to + line.inside.end * c, to + w.kernel * c, Wide<T>{0});
    const std::int64_t taps = line.inside.end - line.inside.begin;
    if (s.groups == 1 && w.dilation == 1) {
      convert(to + line.inside.begin * c, from, taps * c);
      continue;
    }
    for (std::int64_t t = 0; t < taps; ++t) {
      convert(to + (line.inside.begin + t) * c, from + t * step + g * c, c);
    }
  }
}

// Order (channel, tap), which is also that of the groups.
template <typename T>
void copy_strided(const ConvSizes& s, const TapLine& line, const T* from, Wide<T>* row) {
  const Window& w = s.windows[2];
  const std::int64_t taps = s.taps();
  for (std::int64_t t = 0; t < w.kernel; ++t) {
    Wide<T>* const to = row + line.first + t;
    const bool inside = t >= line.inside.begin && t < line.inside.end;
    const T* const pixel = from + (t - line.inside.begin) * w.dilation * s.channels;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      to[c * taps] = inside ? static_cast<Wide<T>>(pixel[c]) : Wide<T>{0};
    }
  }
}

template <typename T>
void fill_row(const ConvSizes& s, bool weights_order, const T* x, std::int64_t index,
              Wide<T>* row) {
  const Pixel p = output_pixel(s.windows, index);
  const auto& [dd, hh, ww] = s.windows;
  const std::int64_t d0 = p.at[0] * dd.stride - dd.before;
  const std::int64_t h0 = p.at[1] * hh.stride - hh.before;
  const std::int64_t w0 = p.at[2] * ww.stride - ww.before;
  const Taps inside = taps_inside(ww, w0);
  for (std::int64_t i = 0; i < dd.kernel; ++i) {
    const std::int64_t d = d0 + i * dd.dilation;
    for (std::int64_t j = 0; j < hh.kernel; ++j) {
      const std::int64_t h = h0 + j * hh.dilation;
      const bool outside = d < 0 || d >= dd.in || h < 0 || h >= hh.in || inside.begin == inside.end;
      const TapLine line{.first = (i * hh.kernel + j) * ww.kernel,
                         .inside = outside ? Taps{} : inside};
      const std::int64_t at =
          outside ? 0
                  : ((p.sample * dd.in + d) * hh.in + h) * ww.in + w0 + inside.begin * ww.dilation;
      if (weights_order) {
        copy_strided(s, line, x + at * s.channels, row);
      } else {
        copy_runs(s, line, x + at * s.channels, row);
      }
    }
  }
}

// to[c] += from of one tap of one row of columns.
template <typename W>
void add_tap(const ConvSizes& s, bool weights_order, const W* row, std::int64_t tap, W* to) {
  if (weights_order) {
    const std::int64_t taps = s.taps();
    for (std::int64_t c = 0; c < s.channels; ++c) {
      to[c] += row[c * taps + tap];
    }
    return;
  }
  const std::int64_t channels = s.channels / s.groups;
  const std::int64_t depth = s.depth();
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const W* const from = row + g * depth + tap * channels;
    W* const target = to + g * channels;
    run_simd([=]() WEFT_INLINE {
      for_packs<W>(channels, [=](std::int64_t c, int count) WEFT_INLINE {
        Pack<W> sum = {};
        Pack<W> term = {};
        load(sum, target + c, count);
        load(term, from + c, count);
        sum += term;
        store(target + c, sum, count);
      });
    });
  }
}

// Rows of a block of columns.
template <typename W>
struct Block {
  const W* columns = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// A line of dx: sample, depth and height fixed.
template <typename W>
void add_line(const ConvSizes& s, bool weights_order, const Block<W>& block, const Pixel& p,
              W* line) {
  const auto& [dd, hh, ww] = s.windows;
  const std::int64_t width = s.depth() * s.groups;
  for (std::int64_t i = 0; i < dd.kernel; ++i) {
    const std::int64_t od = output_at(dd, p.at[0], i);
    for (std::int64_t j = 0; od >= 0 && j < hh.kernel; ++j) {
      const std::int64_t oh = output_at(hh, p.at[1], j);
      const std::int64_t base = ((p.sample * dd.out + od) * hh.out + oh) * ww.out;
      const std::int64_t begin = std::max<std::int64_t>(0, block.first - base);
      const std::int64_t end = std::min(ww.out, block.first + block.count - base);
      for (std::int64_t o = begin; oh >= 0 && o < end; ++o) {
        const std::int64_t w0 = o * ww.stride - ww.before;
        const Taps inside = taps_inside(ww, w0);
        const W* const row = block.columns + (base + o - block.first) * width;
        for (std::int64_t k = inside.begin; k < inside.end; ++k) {
          add_tap(s, weights_order, row, (i * hh.kernel + j) * ww.kernel + k,
                  line + (w0 + k * ww.dilation) * s.channels);
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void fill_columns(const ConvSizes& sizes, const ConvMethod& method, const T* x, std::int64_t first,
                  std::int64_t count, Wide<T>* columns) {
  const std::int64_t width = sizes.depth() * sizes.groups;
  const bool weights_order = method.weights_order && sizes.taps() > 1;
  at::parallel_for(0, count, grain(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      fill_row(sizes, weights_order, x, first + r, columns + r * width);
    }
  });
}

template <typename W>
void add_columns(const ConvSizes& sizes, const ConvMethod& method, const W* columns,
                 std::int64_t first, std::int64_t count, W* dx) {
  const auto& [dd, hh, ww] = sizes.windows;
  const std::int64_t lines = dd.in * hh.in;
  const std::int64_t pixels = window_pixels_out(sizes.windows);
  const std::int64_t begin_line = first / pixels * lines;
  const std::int64_t end_line = ((first + count - 1) / pixels + 1) * lines;
  const Block<W> block{.columns = columns, .first = first, .count = count};
  const bool weights_order = method.weights_order && sizes.taps() > 1;
  const std::int64_t length = ww.in * sizes.channels;
  const std::int64_t height = hh.in;
  at::parallel_for(begin_line, end_line, grain(length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t l = begin; l < end; ++l) {
      const Pixel p{.sample = l / lines, .at = {l % lines / height, l % height, 0}};
      add_line(sizes, weights_order, block, p, dx + l * length);
    }
  });
}

template <typename T>
void pack_weights(const ConvSizes& sizes, const ConvMethod& method, const T* w, Wide<T>* packed) {
  const std::int64_t taps = sizes.taps();
  const std::int64_t depth = sizes.depth();
  const std::int64_t channels = sizes.channels / sizes.groups;
  at::parallel_for(0, sizes.filters, grain(depth), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const T* const from = w + o * depth;
      Wide<T>* const to = packed + o * depth;
      if (method.weights_order) {
        convert(to, from, depth);
        continue;
      }
      for (std::int64_t t = 0; t < taps; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          to[t * channels + c] = static_cast<Wide<T>>(from[c * taps + t]);
        }
      }
    }
  });
}

template <typename T>
void unpack_weights(const ConvSizes& sizes, const ConvMethod& method, const Wide<T>* packed, T* w) {
  const std::int64_t taps = sizes.taps();
  const std::int64_t depth = sizes.depth();
  const std::int64_t channels = sizes.channels / sizes.groups;
  at::parallel_for(0, sizes.filters, grain(depth), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const Wide<T>* const from = packed + o * depth;
      T* const to = w + o * depth;
      if (method.weights_order) {
        convert(to, from, depth);
        continue;
      }
      for (std::int64_t t = 0; t < taps; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          to[c * taps + t] = static_cast<T>(from[t * channels + c]);
        }
      }
    }
  });
}

#define WEFT_COLUMNS(T)                                                                   \
  template void fill_columns(const ConvSizes&, const ConvMethod&, const T*, std::int64_t, \
                             std::int64_t, Wide<T>*);                                     \
  template void pack_weights(const ConvSizes&, const ConvMethod&, const T*, Wide<T>*);    \
  template void unpack_weights(const ConvSizes&, const ConvMethod&, const Wide<T>*, T*)
WEFT_COLUMNS(float);
WEFT_COLUMNS(double);
WEFT_COLUMNS(at::BFloat16);
#undef WEFT_COLUMNS
template void add_columns(const ConvSizes&, const ConvMethod&, const float*, std::int64_t,
                          std::int64_t, float*);
template void add_columns(const ConvSizes&, const ConvMethod&, const double*, std::int64_t,
                          std::int64_t, double*);

}  // namespace weft::ops
