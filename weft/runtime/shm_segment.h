#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/runtime/channel.h"

namespace weft {

/// Memory that the members of a group share. It has no name anywhere: nothing is left behind when
/// they end, however they end.
class ShmSegment {
 public:
  /// Zeros, made by member 0 and mapped by all. Nothing if a member could not map it: the same
  /// answer on all. Throws PeerError if a member does not come.
  static std::optional<ShmSegment> share(Store& store, const Members& members, std::size_t bytes);
  ~ShmSegment();
  ShmSegment(ShmSegment&& other) noexcept;
  ShmSegment& operator=(ShmSegment&&) = delete;
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  ShmSegment(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What says that two processes can share memory: the machine and how it was booted, and the
/// namespaces of processes and of the network. Ranks in different network namespaces are different
/// hosts, however close they are.
[[nodiscard]] std::string host_identity();

/// Rings when something happened that a sleeping process may wait for. Lies in a segment; zeros are
/// a bell that never rang.
struct Bell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;

  void ring();
  /// Until it rings for the first time after `rings` was `seen`, for some milliseconds at most.
  void sleep(std::uint32_t seen);
};

/// Notices when waiting for peers is no use.
class Watch {
 public:
  /// `left[m]`, in a segment, becomes 1 when member m gives up or ends.
  Watch(const Members& members, const std::vector<int>& pids,
        std::vector<std::atomic<std::uint32_t>*> left);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  Watch(Watch&&) = delete;
  Watch& operator=(Watch&&) = delete;

  using Clock = std::chrono::steady_clock;
  /// Why whoever has waited since `begin` for this member (-1: for all) waits in vain; empty if
  /// there is hope.
  [[nodiscard]] std::string trouble(Clock::time_point begin, int member = -1) const;
  void abort() { aborted_ = true; }
  [[nodiscard]] bool aborted() const { return aborted_; }
  [[nodiscard]] int spins() const { return spins_; }

 private:
  [[nodiscard]] bool has_ended(int member) const;

  Members members_;
  std::vector<int> pids_;
  std::vector<int> pid_fds_;  // readable when the process has ended; -1 where there is none
  std::vector<std::atomic<std::uint32_t>*> left_;
  std::atomic<bool> aborted_ = false;
  int spins_ = 0;
};

/// What a loop that looks again and again does in between.
inline void rest_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

[[noreturn]] void throw_peer_error(const std::string& what);

/// Returns when ready() is true. A short time it looks again and again, then it sleeps between the
/// rings. Throws PeerError when waiting (for one member, or for all) is no use.
template <typename Ready>
void wait_until(Bell& bell, const Watch& watch, int member, const Ready& ready) {
  for (int i = 0; i < watch.spins(); ++i) {
    if (ready()) {
      return;
    }
    rest_a_moment();
  }
  const auto begin = Watch::Clock::now();
  while (true) {
    const std::uint32_t seen = bell.rings.load();
    if (ready()) {
      return;
    }
    const std::string trouble = watch.trouble(begin, member);
    if (!trouble.empty()) {
      if (ready()) {  // the last thing the peer did
        return;
      }
      throw_peer_error(trouble);
    }
    bell.sleep(seen);
  }
}

/// The pids of all members, which they tell each other through the store.
[[nodiscard]] std::vector<int> exchange_pids(Store& store, const Members& members);

}  // namespace weft
