// Shared memory without names. Member 0 makes an anonymous file (memfd) and tells its pid and file
// number; the others open /proc/<pid>/fd/<number>. When all have mapped it, the file is closed: the
// kernel frees the memory with the last mapping.
//
// Sleeping and waking is a futex on the number of rings:
//
//   waiter    seen ← rings;  if ready: go on;  sleepers + 1;  sleep if rings = seen;  sleepers - 1
//   ringer    make it ready;  rings + 1;  if sleepers > 0: wake all
//
// If the ringer sees no sleeper, the waiter has not yet slept and will see the new number of rings.
#include "weft/runtime/shm_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr long kSleepNanoseconds = 20'000'000;
constexpr int kSpins = 1000;  // about 20 us

std::byte* map(int fd, std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

std::string link_target(const char* path) {
  char text[128] = {};
  const ssize_t n = ::readlink(path, text, sizeof text - 1);
  return n > 0 ? text : "";
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Its size is set before anybody maps it: a segment that does not fit fails here, not at a write.
int make_file(std::size_t bytes) {
  const int fd = ::memfd_create("weft", MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

std::optional<ShmSegment> ShmSegment::share(Store& store, const Members& members,
                                            std::size_t bytes) {
  const std::string key = members.name + "/segment";
  int fd = -1;
  if (members.self == 0) {
    fd = make_file(bytes);
    store.set(key, fmt::format("/proc/{}/fd/{}", ::getpid(), fd));
  } else {
    fd = ::open(store.get(key).c_str(), O_RDWR | O_CLOEXEC);
  }
  std::byte* data = fd < 0 ? nullptr : map(fd, bytes);
  const bool all = all_agree(store, members, "mapped", data != nullptr);
  if (fd >= 0) {
    ::close(fd);
  }
  if (data == nullptr) {
    return std::nullopt;
  }
  ShmSegment segment(data, bytes);
  return all ? std::optional<ShmSegment>(std::move(segment)) : std::nullopt;
}

ShmSegment::~ShmSegment() {
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
  }
}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {
}

std::string host_identity() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return fmt::format("{} {} {} {}", name, first_line("/proc/sys/kernel/random/boot_id"),
                     link_target("/proc/self/ns/pid"), link_target("/proc/self/ns/net"));
}

void Bell::ring() {
  rings.fetch_add(1);
  if (sleepers.load() > 0) {
    ::syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Bell::sleep(std::uint32_t seen) {
  static_assert(sizeof rings == sizeof(std::uint32_t));
  const timespec most = {.tv_sec = 0, .tv_nsec = kSleepNanoseconds};
  sleepers.fetch_add(1);
  ::syscall(SYS_futex, &rings, FUTEX_WAIT, seen, &most, nullptr, 0);
  sleepers.fetch_sub(1);
}

Watch::Watch(const Members& members, const std::vector<int>& pids,
             std::vector<std::atomic<std::uint32_t>*> left)
    : members_(members), pids_(pids), left_(std::move(left)) {
  for (const int pid : pids_) {
    pid_fds_.push_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  }
  // With more ranks than cores, who looks again and again takes time from who is waited for.
  const bool room = members.count() <= static_cast<int>(std::thread::hardware_concurrency());
  spins_ = room ? kSpins : 1;
}

Watch::~Watch() {
  for (const int fd : pid_fds_) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

bool Watch::has_ended(int member) const {
  if (pid_fds_[member] < 0) {
    return ::kill(pids_[member], 0) != 0 && errno == ESRCH;
  }
  pollfd poll_fd = {.fd = pid_fds_[member], .events = POLLIN, .revents = 0};
  return ::poll(&poll_fd, 1, 0) > 0;
}

std::string Watch::trouble(Clock::time_point begin, int member) const {
  if (aborted_) {
    return "it was aborted";
  }
  for (int m = 0; m < members_.count(); ++m) {
    if (m == members_.self || (member >= 0 && m != member)) {
      continue;
    }
    if (left_[m]->load() != 0) {
      return fmt::format("rank {} has left", members_.ranks[m]);
    }
    if (has_ended(m)) {
      return fmt::format("the process of rank {} has ended", members_.ranks[m]);
    }
  }
  if (std::chrono::duration<double>(Clock::now() - begin).count() > members_.timeout_s) {
    return fmt::format("{} did not come within {:.3g} s",
                       member >= 0 ? fmt::format("rank {}", members_.ranks[member])
                                   : fmt::format("a rank of {}", fmt::join(members_.ranks, ",")),
                       members_.timeout_s);
  }
  return "";
}

void throw_peer_error(const std::string& what) {
  throw PeerError(what);
}

std::vector<int> exchange_pids(Store& store, const Members& members) {
  const auto key = [&](int rank) { return fmt::format("{}/pid/{}", members.name, rank); };
  store.set(key(members.ranks[members.self]), std::to_string(::getpid()));
  std::vector<int> pids;
  for (const int rank : members.ranks) {
    pids.push_back(std::stoi(store.get(key(rank))));
  }
  return pids;
}

}  // namespace weft
