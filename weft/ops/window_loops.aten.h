#pragma once

#include <algorithm>
#include <vector>

#include "weft/ops/window.h"

// Loops over windows (window.h) for kernels.
namespace weft::ops {

/// Where a pixel stands.
struct Pixel {
  std::int64_t sample = 0;
  std::int64_t at[3] = {};
};

inline Pixel pixel_of(std::int64_t index, std::int64_t depth, std::int64_t height,
                      std::int64_t width) {
  return {.sample = index / (depth * height * width),
          .at = {index / (height * width) % depth, index / width % height, index % width}};
}

inline Pixel input_pixel(const Windows& w, std::int64_t index) {
  return pixel_of(index, w[0].in, w[1].in, w[2].in);
}

inline Pixel output_pixel(const Windows& w, std::int64_t index) {
  return pixel_of(index, w[0].out, w[1].out, w[2].out);
}

/// The taps [begin, end) of an output that fall inside the input; tap 0 looks at `first`.
struct Taps {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

inline Taps taps_inside(const Window& w, std::int64_t first) {
  const std::int64_t below = first < 0 ? (-first + w.dilation - 1) / w.dilation : 0;
  const std::int64_t room = w.in - first;
  const std::int64_t end = room <= 0 ? 0 : (room + w.dilation - 1) / w.dilation;
  Taps taps{.begin = std::min(below, w.kernel), .end = std::min(end, w.kernel)};
  taps.end = std::max(taps.begin, taps.end);
  return taps;
}

/// The output that looks at input `at` with tap t, -1 if none does.
inline std::int64_t output_at(const Window& w, std::int64_t at, std::int64_t t) {
  const std::int64_t scaled = at + w.before - t * w.dilation;
  return scaled < 0 || scaled % w.stride != 0 || scaled / w.stride >= w.out ? -1
                                                                            : scaled / w.stride;
}

/// Calls body(tap, input) for each input pixel that an output pixel looks at, in order of taps.
template <typename Body>
inline void for_inputs(const Windows& w, const Pixel& out, const Body& body) {
  std::int64_t first[3] = {};
  Taps taps[3];
  for (int d = 0; d < 3; ++d) {
    const Window& window = w[static_cast<std::size_t>(d)];
    first[d] = out.at[d] * window.stride - window.before;
    taps[d] = taps_inside(window, first[d]);
  }
  for (std::int64_t i = taps[0].begin; i < taps[0].end; ++i) {
    for (std::int64_t j = taps[1].begin; j < taps[1].end; ++j) {
      const std::int64_t line = ((out.sample * w[0].in + first[0] + i * w[0].dilation) * w[1].in +
                                 first[1] + j * w[1].dilation) *
                                w[2].in;
      for (std::int64_t k = taps[2].begin; k < taps[2].end; ++k) {
        body((i * w[1].kernel + j) * w[2].kernel + k, line + first[2] + k * w[2].dilation);
      }
    }
  }
}

/// Calls body(tap, output) for each output pixel that looks at an input pixel.
template <typename Body>
inline void for_outputs(const Windows& w, const Pixel& in, const Body& body) {
  for (std::int64_t i = 0; i < w[0].kernel; ++i) {
    const std::int64_t d = output_at(w[0], in.at[0], i);
    for (std::int64_t j = 0; d >= 0 && j < w[1].kernel; ++j) {
      const std::int64_t h = output_at(w[1], in.at[1], j);
      for (std::int64_t k = 0; h >= 0 && k < w[2].kernel; ++k) {
        const std::int64_t x = output_at(w[2], in.at[2], k);
        if (x >= 0) {
          body((i * w[1].kernel + j) * w[2].kernel + k,
               ((in.sample * w[0].out + d) * w[1].out + h) * w[2].out + x);
        }
      }
    }
  }
}

/// A pixel that another one looks at or is seen by, and with which tap.
struct Neighbour {
  std::int64_t tap = 0;
  std::int64_t at = 0;
};

/// for_inputs and for_outputs as lists: made once a pixel, used for every pack of channels.
inline void list_inputs(const Windows& w, std::int64_t output, std::vector<Neighbour>& list) {
  list.clear();
  for_inputs(w, output_pixel(w, output), [&list](std::int64_t tap, std::int64_t at) {
    list.push_back({.tap = tap, .at = at});
  });
}

inline void list_outputs(const Windows& w, std::int64_t input, std::vector<Neighbour>& list) {
  list.clear();
  for_outputs(w, input_pixel(w, input), [&list](std::int64_t tap, std::int64_t at) {
    list.push_back({.tap = tap, .at = at});
  });
}

}  // namespace weft::ops
