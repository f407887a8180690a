// Numbers from samples, so that the cost model's formulas add up to the time that all samples took
// together: what counts in the end is the step, not the single kernel.
//
// Kernels: seconds = launch + max(flops / (efficiency peak), bytes / bandwidth)
//   launch       the lower quartile of kernels that do next to nothing
//   peak         flops / seconds of the fastest kernel of a dtype
//   efficiency   of the kernels that do many flops for a byte: all their flops over all their
//                seconds, over the peak
//   bandwidth    of the others: all their bytes over all their seconds
//
// Links: a collective of n members with V bytes takes s steps of a ring that carry c V bytes,
//
//   seconds = s latency + c V / bandwidth,     s and c as in cost.cpp
//
// The least relative error over all samples gives both; a line through the logarithms would not.

#include "weft/calibrate/fit.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace weft {
namespace {

constexpr double kFlopsPerByte = 4;     // more: the kernel computes; less: it moves data
constexpr double kNothingBytes = 4096;  // kernels below do next to nothing

double lower_quartile(std::vector<double> numbers) {
  const auto at = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 4);
  std::nth_element(numbers.begin(), at, numbers.end());
  return *at;
}

struct Sums {
  double work = 0;
  double seconds = 0;
  double fastest = 0;

  void add(double amount, double time_s) {
    work += amount;
    seconds += time_s;
    fastest = std::max(fastest, amount / time_s);
  }
};

/// Steps and bytes of a ring, for one byte on the device that has most.
struct RingShape {
  double steps = 0;
  double bytes = 0;
};

RingShape ring_shape(const ExchangeSample& sample) {
  const double n = sample.members;
  if (sample.kind == "send") {
    return {.steps = 1, .bytes = 1};
  }
  const double rounds = sample.kind == "all_reduce" ? 2 : 1;
  return {.steps = rounds * (n - 1), .bytes = rounds * (n - 1) / n};
}

}  // namespace

DeviceType fit_device(const DeviceType& known, const std::vector<KernelSample>& samples) {
  DeviceType type = known;
  std::vector<double> nothing;
  for (const KernelSample& sample : samples) {
    if (sample.cost.bytes_moved <= kNothingBytes && sample.seconds > 0) {
      nothing.push_back(sample.seconds);
    }
  }
  type.launch_s = nothing.empty() ? known.launch_s : lower_quartile(nothing);
  std::map<std::string, Sums> compute;
  Sums memory;
  for (const KernelSample& sample : samples) {
    const double seconds = std::max(sample.seconds - type.launch_s, 0.1 * sample.seconds);
    if (sample.cost.bytes_moved <= kNothingBytes || seconds <= 0) {
      continue;
    }
    if (sample.cost.flops > kFlopsPerByte * sample.cost.bytes_moved) {
      compute[std::string(dtype_name(sample.dtype))].add(sample.cost.flops, seconds);
    } else {
      memory.add(sample.cost.bytes_moved, seconds);
    }
  }
  if (memory.seconds > 0) {
    type.memory_bandwidth = memory.work / memory.seconds;
  }
  // One efficiency stands for all dtypes: it is that of f32, and the peaks of others make up for
  // it.
  const auto f32 = compute.find("f32");
  if (f32 != compute.end()) {
    type.efficiency = f32->second.work / f32->second.seconds / f32->second.fastest;
  }
  for (const auto& [dtype, sums] : compute) {
    type.flops_per_s[dtype] = sums.work / sums.seconds / type.efficiency;
  }
  return type;
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
