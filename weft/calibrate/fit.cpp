// Numbers from samples.
//
// Kernels: a table for each class of ops and dtype. Samples whose sizes (flops; of stream, bytes)
// differ by less than a factor of sqrt(2) are one point: their mean size and mean time, without
// those that took more than three times the median, which something else held up. So the table adds
// up to what all samples took together: what counts in the end is the step, not the single kernel.
// launch is the lower quartile of kernels that do next to nothing.
//
// Links: a collective of n members with V bytes takes s steps of a ring that carry c V bytes,
//
//   seconds = s latency + c V / bandwidth,     s and c as in collective.cpp
//
// The least relative error over all samples gives both; a line through the logarithms would not.

#include "weft/calibrate/fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace weft {
namespace {

constexpr double kNothingBytes = 4096;  // kernels below do next to nothing
constexpr double kOutlier = 3;          // times the median
constexpr double kPointsAnOctave = 2;

double quantile(std::vector<double> numbers, double share) {
  const auto at = numbers.begin() +
                  static_cast<std::ptrdiff_t>(share * static_cast<double>(numbers.size() - 1));
  std::nth_element(numbers.begin(), at, numbers.end());
  return *at;
}

using Points = std::vector<std::pair<double, double>>;  // size, seconds

std::pair<double, double> mean_point(const Points& points) {
  std::vector<double> seconds;
  for (const auto& [size, time_s] : points) {
    seconds.push_back(time_s);
  }
  const double limit = kOutlier * quantile(seconds, 0.5);
  double sizes = 0;
  double sum_s = 0;
  double count = 0;
  for (const auto& [size, time_s] : points) {
    if (time_s <= limit) {
      sizes += size;
      sum_s += time_s;
      ++count;
    }
  }
  return {std::max(sizes / count, 1.0), sum_s / count};
}

/// Steps and bytes of a ring, for one byte on the device that has most.
struct RingShape {
  double steps = 0;
  double bytes = 0;
};

RingShape ring_shape(const ExchangeSample& sample) {
  const double n = sample.members;
  if (sample.kind == "send" || sample.kind == "shift") {
    return {.steps = 1, .bytes = 1};
  }
  const double rounds = sample.kind == "all_reduce" ? 2 : 1;
  return {.steps = rounds * (n - 1), .bytes = rounds * (n - 1) / n};
}

}  // namespace

Curve fit_curve(const std::vector<std::pair<double, double>>& samples) {
  std::map<int, Points> octaves;
  for (const auto& [size, seconds] : samples) {
    octaves[static_cast<int>(std::floor(kPointsAnOctave * std::log2(std::max(size, 1.0))))]
        .emplace_back(size, seconds);
  }
  Curve curve;
  for (const auto& [octave, points] : octaves) {
    curve.points.push_back(mean_point(points));
  }
  return curve;
}

DeviceType fit_device(const DeviceType& known, const std::vector<KernelSample>& samples) {
  DeviceType type = known;
  std::vector<double> nothing;
  std::map<std::pair<OpClass, DType>, Points> points;
  for (const KernelSample& sample : samples) {
    const double flops = sample.work.cost.flops;
    const double bytes = sample.work.cost.bytes_moved;
    if (sample.seconds <= 0) {
      continue;
    }
    if (bytes <= kNothingBytes) {
      nothing.push_back(sample.seconds);
    }
    const bool stream = sample.work.op_class == OpClass::stream;
    points[{sample.work.op_class, sample.work.dtype}].emplace_back(stream ? bytes : flops,
                                                                   sample.seconds);
  }
  if (!nothing.empty()) {
    type.launch_s = quantile(nothing, 0.25);
    type.origins.exceptions["launch"] = Origin::measured;
  }
  for (const auto& [key, list] : points) {
    type.ops[std::string(op_class_name(key.first))].tables[std::string(dtype_name(key.second))] =
        fit_curve(list);
    type.origins.exceptions["ops"] = Origin::measured;
    type.corrections.clear();  // of what other numbers say
  }
  return type;
}

std::vector<CollectiveTable> fit_collectives(const std::vector<ExchangeSample>& samples) {
  std::map<std::pair<std::string, int>, Points> points;
  for (const ExchangeSample& sample : samples) {
    if (sample.members > 1 && sample.kind != "send" && sample.seconds > 0) {
      points[{sample.kind, sample.members}].emplace_back(sample.bytes, sample.seconds);
    }
  }
  std::vector<CollectiveTable> tables;
  for (const auto& [key, list] : points) {
    tables.push_back({.kind = key.first, .members = key.second, .curve = fit_curve(list)});
  }
  return tables;
}

// Minimises the sum of ((s l + c V g) / t - 1)^2 over latency l and seconds a byte g.
LinkFit fit_link(const LinkFit& known, const std::vector<ExchangeSample>& samples) {
  double aa = 0;
  double ab = 0;
  double bb = 0;
  double a1 = 0;
  double b1 = 0;
  for (const ExchangeSample& sample : samples) {
    if (sample.members < 2 || sample.seconds <= 0) {
      continue;
    }
    const RingShape shape = ring_shape(sample);
    const double a = shape.steps / sample.seconds;
    const double b = shape.bytes * sample.bytes / sample.seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  if (!(determinant > 1e-12 * aa * bb)) {
    return known;
  }
  const double latency_s = (a1 * bb - b1 * ab) / determinant;
  const double per_byte_s = (b1 * aa - a1 * ab) / determinant;
  if (latency_s <= 0 && bb > 0) {
    return {.bandwidth = bb / b1, .latency_s = 0};
  }
  return per_byte_s > 0 ? LinkFit{.bandwidth = 1 / per_byte_s, .latency_s = latency_s}
                        : LinkFit{.bandwidth = known.bandwidth, .latency_s = a1 / aa};
}

}  // namespace weft
