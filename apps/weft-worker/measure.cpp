// What `weft profile` asks of the ranks besides training small models. Each kind is timed at
// several sizes; each size runs once to warm up, which also tells how often it can be repeated in
// its part of the time. The lower quartile counts: other work on the machine only ever adds.
#include "weft/kernels/torch_headers.h"

#include "measure.h"

#include <c10/core/InferenceMode.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "weft/base/error.h"
#include "weft/runtime/communicator.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRepeats = 200;
constexpr std::int64_t kDiskBytes = std::int64_t{32} << 20;
constexpr std::int64_t kSizes[] = {64, 16 << 10, 256 << 10, 2 << 20, 16 << 20};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double lower_quartile(std::vector<double> seconds) {
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 4);
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

at::Tensor floats(std::int64_t bytes) {
  return at::zeros({std::max<std::int64_t>(1, bytes / 4)}, at::TensorOptions(at::kFloat));
}

class Measurement {
 public:
  Measurement(const WorkerOptions& options, const JobPlace& place, const Reporter& reporter,
              const std::atomic<bool>& stop)
      : options_(options), reporter_(reporter), stop_(stop), communicator_(place.rendezvous) {}

  void run() {
    struct Kind {
      const char* name;
      int members;
      std::function<std::function<void()>(std::int64_t bytes)> prepare;
    };
    const int world = communicator_.world();
    const std::vector<Kind> kinds = {
        {"copy", 1, [this](std::int64_t bytes) { return copy(bytes); }},
        {"all_reduce", world, [this](std::int64_t bytes) { return all_reduce(bytes); }},
        {"all_gather", world, [this](std::int64_t bytes) { return all_gather(bytes); }},
        {"reduce_scatter", world, [this](std::int64_t bytes) { return reduce_scatter(bytes); }},
        {"all_to_all", world, [this](std::int64_t bytes) { return all_to_all(bytes); }},
        {"send", 2, [this](std::int64_t bytes) { return ping(bytes); }}};
    const double share_s =
        options_.measure_s / static_cast<double>(kinds.size() * std::size(kSizes));
    for (const Kind& kind : kinds) {
      for (const std::int64_t bytes : kSizes) {
        if (kind.members > 1 && world == 1) {
          continue;
        }
        const double seconds = timed(kind.prepare(bytes), share_s);
        if (seconds < 0) {
          return;  // asked to stop
        }
        report(kind.name, kind.members, bytes,
               kind.name == std::string("send") ? seconds / 2 : seconds);
      }
    }
    if (communicator_.rank() == 0) {
      disk();
    }
    communicator_.barrier();
  }

 private:
  std::function<void()> copy(std::int64_t bytes) {
    return [from = floats(bytes), to = floats(bytes)] { to.copy_(from); };
  }
  std::function<void()> all_reduce(std::int64_t bytes) {
    return [this, tensor = floats(bytes)] { communicator_.all_reduce(0, tensor); };
  }
  // `bytes` are those of the whole; each rank has a part.
  std::function<void()> all_gather(std::int64_t bytes) {
    return
        [this, mine = part(bytes), all = parts(bytes)] { communicator_.all_gather(0, mine, all); };
  }
  std::function<void()> reduce_scatter(std::int64_t bytes) {
    return [this, mine = part(bytes), all = parts(bytes)] {
      communicator_.reduce_scatter(0, all, mine);
    };
  }
  std::function<void()> all_to_all(std::int64_t bytes) {
    return [this, send = parts(bytes), recv = parts(bytes)] {
      communicator_.all_to_all(0, send, recv);
    };
  }
  [[nodiscard]] at::Tensor part(std::int64_t bytes) const {
    return floats(bytes / communicator_.world());
  }
  [[nodiscard]] std::vector<at::Tensor> parts(std::int64_t bytes) const {
    std::vector<at::Tensor> result;
    for (int m = 0; m < communicator_.world(); ++m) {
      result.push_back(part(bytes));
    }
    return result;
  }
  // There and back between ranks 0 and 1; the others have nothing to do.
  std::function<void()> ping(std::int64_t bytes) {
    return [this, tensor = floats(bytes)] {
      const int rank = communicator_.rank();
      if (rank == 0) {
        communicator_.send(1, tensor, 0)->wait();
        communicator_.receive(1, tensor, 1)->wait();
      } else if (rank == 1) {
        communicator_.receive(0, tensor, 0)->wait();
        communicator_.send(0, tensor, 1)->wait();
      }
    };
  }

  /// The same number on all ranks; negative if one of them was asked to stop.
  double agreed(double seconds) {
    double sums[2] = {seconds, stop_ ? 1.0 : 0.0};
    communicator_.all_reduce(0, at::from_blob(sums, {2}, at::TensorOptions(at::kDouble)));
    return sums[1] > 0 ? -1 : sums[0] / communicator_.world();
  }

  double timed(const std::function<void()>& what, double share_s) {
    what();  // connections and pages
    const auto begin = Clock::now();
    what();
    const double once_s = agreed(seconds_since(begin));
    if (once_s < 0) {
      return -1;
    }
    const int repeats =
        std::clamp(static_cast<int>(share_s / std::max(once_s, 1e-6)), 3, kMostRepeats);
    std::vector<double> seconds;
    for (int i = 0; i < repeats; ++i) {
      const auto start = Clock::now();
      what();
      seconds.push_back(seconds_since(start));
    }
    return agreed(lower_quartile(std::move(seconds)));
  }

  void report(const std::string& kind, int members, std::int64_t bytes, double seconds) {
    if (communicator_.rank() == 0) {
      reporter_.send({{"type", "measured"},
                      {"kind", kind},
                      {"members", members},
                      {"bytes", bytes},
                      {"seconds", seconds}});
    }
  }

  // Written through to the disk, then read after the page cache was told to forget it.
  void disk() {
    std::string path = options_.measure_folder + "/disk-XXXXXX";
    const int fd = ::mkstemp(path.data());
    if (fd < 0) {
      fail_environment("cannot write a file in {}", options_.measure_folder);
    }
    ::unlink(path.c_str());
    const std::vector<char> block(static_cast<std::size_t>(kDiskBytes), 'w');
    std::vector<char> back(block.size());
    const auto begin = Clock::now();
    const bool written =
        ::pwrite(fd, block.data(), block.size(), 0) == kDiskBytes && ::fdatasync(fd) == 0;
    const double write_s = seconds_since(begin);
    ::posix_fadvise(fd, 0, kDiskBytes, POSIX_FADV_DONTNEED);
    const auto reading = Clock::now();
    const bool read = ::pread(fd, back.data(), back.size(), 0) == kDiskBytes;
    const double read_s = seconds_since(reading);
    ::close(fd);
    if (!written || !read) {
      fail_environment("cannot write and read {} bytes in {}", kDiskBytes, options_.measure_folder);
    }
    report("disk_write", 1, kDiskBytes, write_s);
    report("disk_read", 1, kDiskBytes, read_s);
  }

  const WorkerOptions& options_;
  const Reporter& reporter_;
  const std::atomic<bool>& stop_;
  Communicator communicator_;
};

}  // namespace

void measure(const WorkerOptions& options, const JobPlace& place, const Reporter& reporter,
             const std::atomic<bool>& stop) {
  const c10::InferenceMode guard;
  at::set_num_threads(options.threads > 0 ? options.threads : 1);
  Measurement(options, place, reporter, stop).run();
  reporter.send({{"type", "done"}, {"step", 0}, {"stopped", stop.load()}});
}

}  // namespace weft
