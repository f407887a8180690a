#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/runtime/communicator.h"

namespace weft {

/// Value of an environment variable, if it is set and not empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct JobPlace {
  Rendezvous rendezvous;
  int local_world = 1;  // ranks on this host
};

/// This process's place, from what torchrun (and weft), srun or mpirun put into the environment, in
/// this order; alone if none did. Throws Error{input} for numbers that do not fit and for what is
/// missing.
[[nodiscard]] JobPlace place_in_job(const Environment& environment);

/// The first host of a SLURM list: "n[03-05,9],x" → "n03".
[[nodiscard]] std::string first_host(const std::string& list);

}  // namespace weft
