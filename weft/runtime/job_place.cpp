#include "weft/runtime/job_place.h"

#include <charconv>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr int kDefaultPort = 29500;

int number(const std::string& name, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(),
          "environment variable {} is '{}', not a number", name, text);
  return value;
}

std::optional<int> find_number(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  return text ? std::optional(number(name, *text)) : std::nullopt;
}

struct Names {
  const char* launcher;
  const char* rank;
  const char* world;
  const char* local_world;
  const char* job[2];  // what together names the job; the second may be missing
};
constexpr Names kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"TORCHELASTIC_RUN_ID"}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_NTASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE"}},
};

// WEFT_JOB stands first, as weft's own launcher may run under another one.
std::string job_mark(const Environment& environment, const Names& names) {
  if (const auto mark = environment("WEFT_JOB")) {
    return *mark;
  }
  std::string mark;
  for (const char* name : names.job) {
    const auto part = name == nullptr ? std::nullopt : environment(name);
    mark += (part && !mark.empty() ? "." : "") + part.value_or("");
  }
  return mark;
}

void find_store(const Environment& environment, JobPlace& place) {
  Rendezvous& r = place.rendezvous;
  const auto host = environment("MASTER_ADDR");
  const auto hosts = environment("SLURM_STEP_NODELIST");
  if (host) {
    r.host = *host;
  } else if (r.world > place.local_world && hosts) {
    r.host = first_host(*hosts);
  } else {
    require(r.world <= place.local_world,
            "the job spans several hosts: set MASTER_ADDR to the host of rank 0");
  }
  // Jobs on the same host need ports of their own.
  const int job = find_number(environment, "SLURM_JOB_ID").value_or(0);
  r.port = find_number(environment, "MASTER_PORT").value_or(kDefaultPort + job % 1000);
}

}  // namespace

std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') {
    return list.substr(0, end);
  }
  const std::size_t number_end = list.find_first_of(",-]", end);
  return list.substr(0, end) + list.substr(end + 1, number_end - end - 1);
}

JobPlace place_in_job(const Environment& environment) {
  JobPlace place;
  for (const Names& names : kLaunchers) {
    const auto rank = find_number(environment, names.rank);
    if (!rank) {
      continue;
    }
    const auto world = find_number(environment, names.world);
    require(world.has_value(), "{} set {} but not {}", names.launcher, names.rank, names.world);
    require(*rank >= 0 && *rank < *world, "{}={} is not below {}={}", names.rank, *rank,
            names.world, *world);
    place.rendezvous.rank = *rank;
    place.rendezvous.world = *world;
    place.rendezvous.job = job_mark(environment, names);
    place.local_world = find_number(environment, names.local_world).value_or(*world);
    find_store(environment, place);
    break;
  }
  return place;
}

}  // namespace weft
