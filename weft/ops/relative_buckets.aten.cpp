#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <cmath>

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"

namespace weft::ops {
namespace {

struct Buckets {
  std::int64_t count = 2;  // of one direction
  std::int64_t max_distance = 2;
  bool bidirectional = false;

  [[nodiscard]] std::int64_t of(std::int64_t distance) const {
    const std::int64_t offset = bidirectional && distance > 0 ? count : 0;
    const std::int64_t n =
        bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
    return offset + of_length(n);
  }

  // The steps of the reference in f32: a distance on the border of two buckets falls as it rounds.
  [[nodiscard]] std::int64_t of_length(std::int64_t n) const {
    const std::int64_t exact = count / 2;
    if (n < exact) {
      return n;
    }
    const double range = std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
    const float length = static_cast<float>(n) / static_cast<float>(exact);
    const float step = std::log(length) / static_cast<float>(range);
    const auto far = static_cast<std::int64_t>(step * static_cast<float>(count - exact));
    return std::min(exact + far, count - 1);
  }
};

}  // namespace

Tensors relative_buckets_kernel(const KernelCall& call) {
  const Attrs& attrs = call.call.attrs;
  const TensorType& type = call.call.outputs[0];
  const bool both = attr_int(attrs, "bidirectional") != 0;
  const Buckets buckets{.count = attr_int(attrs, "buckets") / (both ? 2 : 1),
                        .max_distance = attr_int(attrs, "max_distance"),
                        .bidirectional = both};
  const bool whole = call.env.outputs.empty();
  const std::int64_t query = whole ? 0 : call.env.outputs[0][0].begin;
  const std::int64_t key = whole ? 0 : call.env.outputs[0][1].begin;
  const std::int64_t keys = type.size(1);
  const at::Tensor table = at::empty({type.size(0), keys}, at::TensorOptions(at::kLong));
  std::int64_t* const out = table.data_ptr<std::int64_t>();
  at::parallel_for(0, type.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      for (std::int64_t t = 0; t < keys; ++t) {
        out[s * keys + t] = buckets.of(key + t - query - s);
      }
    }
  });
  return {table};
}

}  // namespace weft::ops
