#pragma once

#include <string>
#include <vector>

#include "weft/cost/kernel_work.h"
#include "weft/program/program.h"
#include "weft/timeline/timeline.h"

namespace weft {

/// A kernel that really ran: what it had to do and how long it took.
struct KernelSample {
  KernelWork work = {};
  double seconds = 0;
  DeviceId device = 0;
};

/// A collective, or a message between two devices ("send").
struct ExchangeSample {
  std::string kind;  // "all_reduce"
  int members = 0;
  double bytes = 0;  // on the device that has most, of the larger side
  double seconds = 0;
};

struct Samples {
  std::vector<KernelSample> kernels = {};
  std::vector<ExchangeSample> exchanges = {};
};

/// What a measured timeline of the program says of kernels and collectives. A collective lasts from
/// the last arrival to the last end; how long a message took, the timeline does not tell. Throws
/// Error{input} if the timeline is not one of this program.
[[nodiscard]] Samples samples_of(const Timeline& timeline, const Program& program,
                                 const Graph& graph, const OpTable& ops);

}  // namespace weft
