// The table first, then one pass over x.
//
// e^{ipf} of position p = 32 a + r is the product of e^{i 32a f} and e^{i r f}: two short lists of
// sines and cosines instead of one for each position. In f64 the product is exact to an ulp, and as
// `a` and `r` come from the position in the whole sequence, a part of it has the same numbers.

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"
#include "weft/ops/rotary.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kNear = 32;

struct Rotation {
  double cos = 1;
  double sin = 0;
};

std::vector<Rotation> rotations(const std::vector<double>& frequencies, std::int64_t first,
                                std::int64_t count, std::int64_t step) {
  std::vector<Rotation> list;
  list.reserve(frequencies.size() * static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    for (const double f : frequencies) {
      const double angle = static_cast<double>((first + i) * step) * f;
      list.push_back({std::cos(angle), std::sin(angle)});
    }
  }
  return list;
}

// cos and sin of a position stand in two rows, of dims/2 entries, or of dims if interleaved: then
// each cos stands twice, and sin as (-sin, sin).
template <typename W>
struct Table {
  W* data = nullptr;
  std::int64_t pairs = 0;
  bool interleaved = false;

  [[nodiscard]] std::int64_t width() const { return interleaved ? 2 * pairs : pairs; }
  [[nodiscard]] W* cos(std::int64_t row) const { return data + 2 * row * width(); }
  [[nodiscard]] W* sin(std::int64_t row) const { return cos(row) + width(); }

  void set(std::int64_t row, std::int64_t i, Rotation r) const {
    if (!interleaved) {
      cos(row)[i] = static_cast<W>(r.cos);
      sin(row)[i] = static_cast<W>(r.sin);
      return;
    }
    cos(row)[2 * i] = static_cast<W>(r.cos);
    cos(row)[2 * i + 1] = static_cast<W>(r.cos);
    sin(row)[2 * i] = static_cast<W>(-r.sin);
    sin(row)[2 * i + 1] = static_cast<W>(r.sin);
  }

  void fill(const std::vector<double>& frequencies, Range positions, bool inverse) const {
    const std::int64_t first = positions.begin / kNear;
    const std::int64_t far_count = positions.size() == 0 ? 0 : (positions.end - 1) / kNear + 1;
    const std::vector<Rotation> far =
        rotations(frequencies, first, std::max<std::int64_t>(0, far_count - first), kNear);
    const std::vector<Rotation> near = rotations(frequencies, 0, std::min(kNear, positions.end), 1);
    at::parallel_for(0, positions.size(), 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t position = positions.begin + row;
        const Rotation* const a = far.data() + (position / kNear - first) * pairs;
        const Rotation* const r = near.data() + position % kNear * pairs;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double sine = a[i].sin * r[i].cos + a[i].cos * r[i].sin;
          set(row, i, {a[i].cos * r[i].cos - a[i].sin * r[i].sin, inverse ? -sine : sine});
        }
      }
    });
  }
};

template <typename T>
struct Head {
  const T* x = nullptr;
  T* y = nullptr;
  const Wide<T>* cos = nullptr;
  const Wide<T>* sin = nullptr;
};

template <typename T>
WEFT_INLINE inline void turn_halves(const Head<T>& head, std::int64_t pairs) {
  using W = Wide<T>;
  for_packs<T>(pairs, [&](std::int64_t j, int count) WEFT_INLINE {
    Pack<W> a = {};
    Pack<W> b = {};
    Pack<W> c = {};
    Pack<W> s = {};
    load(a, head.x + j, count);
    load(b, head.x + pairs + j, count);
    load(c, head.cos + j, count);
    load(s, head.sin + j, count);
    store(head.y + j, a * c - b * s, count);
    store(head.y + pairs + j, b * c + a * s, count);
  });
}

WEFT_INLINE inline void swap_pairs(Pack<float>& to, const Pack<float>& x) {
  to = __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
}
WEFT_INLINE inline void swap_pairs(Pack<double>& to, const Pack<double>& x) {
  to = __builtin_shufflevector(x, x, 1, 0, 3, 2);
}

// A pack holds whole pairs, and so does the rest of a row.
template <typename T>
WEFT_INLINE inline void turn_interleaved(const Head<T>& head, std::int64_t pairs) {
  using W = Wide<T>;
  for_packs<T>(2 * pairs, [&](std::int64_t j, int count) WEFT_INLINE {
    Pack<W> x = {};
    Pack<W> swapped;
    Pack<W> c = {};
    Pack<W> s = {};
    load(x, head.x + j, count);
    load(c, head.cos + j, count);
    load(s, head.sin + j, count);
    swap_pairs(swapped, x);
    store(head.y + j, x * c + swapped * s, count);
  });
}

template <typename T>
void turn_rows(const Table<Wide<T>>& table, const at::Tensor& x, const at::Tensor& y) {
  const std::int64_t s = x.size(1);
  const std::int64_t h = x.size(2);
  const std::int64_t d = x.size(3);
  const std::int64_t dims = 2 * table.pairs;
  const T* const from = data_of<T>(x);
  T* const to = data_of<T>(y);
  at::parallel_for(
      0, x.size(0) * s, 1 + 16384 / (h * d + 1), [=](std::int64_t begin, std::int64_t end) {
        run_simd([=]() WEFT_INLINE {
          for (std::int64_t i = begin * h; i < end * h; ++i) {
            const std::int64_t position = i / h % s;
            const Head<T> head{from + i * d, to + i * d, table.cos(position), table.sin(position)};
            if (table.interleaved) {
              turn_interleaved(head, table.pairs);
            } else {
              turn_halves(head, table.pairs);
            }
            if (head.x != head.y) {
              std::copy(head.x + dims, head.x + d, head.y + dims);
            }
          }
        });
      });
}

template <typename T>
Tensors run(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[0];
  const Attrs& attrs = call.call.attrs;
  const at::Tensor y = output_of(call, 0);
  const at::Tensor memory = at::empty({rotary_table_size(call.call)}, options_of<W>());
  const Table<W> table{.data = data_of<W>(memory),
                       .pairs = attr_int(attrs, "dims") / 2,
                       .interleaved = attr_int(attrs, "interleaved") == 1};
  const Range positions =
      call.env.outputs.empty() ? Range{0, x.size(1)} : call.env.outputs[0].at(1);
  table.fill(rotary_frequencies(attrs), positions, attr_int(attrs, "inverse") == 1);
  turn_rows<T>(table, x, y);
  return {y};
}

}  // namespace

Tensors rotary_kernel(const KernelCall& call) {
  return for_floating(call, "rotary", 0, [&](auto t) { return run<decltype(t)>(call); });
}

}  // namespace weft::ops
