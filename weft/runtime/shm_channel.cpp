// Every collective is a number of rounds. In round k each member writes up to a window of bytes
// into its part of the segment, all meet at a barrier, and each reads what concerns it:
//
//   write(0) | write(1) read(0) | write(2) read(1) | …        | is the barrier
//
// Windows are double: while round k is read, round k + 1 is written beside it. Who writes round
// k + 2 over round k has passed barrier k + 1, which everybody reached with round k read. So one
// barrier a round is enough, also from one collective to the next.
//
// An all_reduce of S bytes cuts each round among the n members: member m adds chunk m of all
// windows, in the order of the members, and writes the sum into its second window, which the others
// read one round later:
//
//   write(0) | write(1) add(0) | write(2) add(1) take(0) | …
//
// Bytes that each member moves: S in, S/n sums out, S (n-1)/n taken. Small tensors are added by
// everybody in one round: one barrier.
#include "weft/runtime/shm_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "weft/base/error.h"
#include "weft/runtime/reduce.h"
#include "weft/runtime/shm_segment.h"

namespace weft {
namespace {

constexpr std::size_t kWindow = kShmWindow;
constexpr std::size_t kAddedByAll = std::size_t{64} << 10U;  // bytes of all members' terms together
constexpr std::size_t kAlign = 64;

struct alignas(kAlign) Meeting {
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> round;
  Bell bell;
};

struct alignas(kAlign) MemberRecord {
  std::atomic<std::uint32_t> left;
  std::atomic<std::uint64_t> longest[2];  // of what it sends to one member; by parity of the turn
};

struct MemberMemory {
  std::byte data[2][kWindow];
  std::byte sums[2][kWindow];
};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

std::size_t divide_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

class ShmChannel final : public Channel {
 public:
  ShmChannel(const Members& members, ShmSegment segment, const std::vector<int>& pids)
      : members_(members),
        n_(members.count()),
        segment_(std::move(segment)),
        meeting_(*reinterpret_cast<Meeting*>(segment_.data())),
        records_(reinterpret_cast<MemberRecord*>(segment_.data() + sizeof(Meeting))),
        memory_(reinterpret_cast<MemberMemory*>(segment_.data() + header_bytes(n_))),
        watch_(members, pids, left_words()) {}
  ~ShmChannel() override { leave(); }
  ShmChannel(const ShmChannel&) = delete;
  ShmChannel& operator=(const ShmChannel&) = delete;
  ShmChannel(ShmChannel&&) = delete;
  ShmChannel& operator=(ShmChannel&&) = delete;

  static std::size_t header_bytes(int members) {
    return aligned(sizeof(Meeting) + members * sizeof(MemberRecord));
  }
  static std::size_t bytes_for(int members) {
    return header_bytes(members) + members * sizeof(MemberMemory);
  }

  [[nodiscard]] std::string_view name() const override { return "shm"; }
  void all_reduce(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op) override;
  void reduce_scatter(const std::vector<Pieces>& parts, const Pieces& to, DType dtype,
                      ReduceOp op) override;
  void exchange(const std::vector<Pieces>& send, const std::vector<Pieces>& recv) override;
  void all_gather(const Pieces& send, const std::vector<Pieces>& recv) override;
  void broadcast(int root, const Pieces& data) override;
  void barrier() override { meet(); }
  void abort() override {
    watch_.abort();
    leave();
  }

 private:
  using Window = std::byte*;

  std::vector<std::atomic<std::uint32_t>*> left_words() {
    std::vector<std::atomic<std::uint32_t>*> words;
    for (int m = 0; m < n_; ++m) {
      words.push_back(&records_[m].left);
    }
    return words;
  }
  void leave() {
    records_[members_.self].left.store(1);
    meeting_.bell.ring();
  }
  void meet();
  [[nodiscard]] Window window(int member, std::size_t round) const {
    return memory_[member].data[(turn_ + round) % 2];
  }
  [[nodiscard]] Window sums(int member, std::size_t round) const {
    return memory_[member].sums[(turn_ + round) % 2];
  }
  void add_small(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op);
  /// Rounds of `step` bytes until the longest of all members' `bytes` is through. The first one is
  /// written before anybody knows how many there will be.
  template <typename Write, typename Read>
  void play(std::size_t bytes, std::size_t step, const Write& write, const Read& read);
  [[nodiscard]] std::size_t longest() const;
  /// Bytes of a window for each of the other members.
  [[nodiscard]] std::size_t share() const { return kWindow / (n_ - 1) / kAlign * kAlign; }
  /// What `from` writes for `to`.
  [[nodiscard]] Window share_of(int from, int to, std::size_t round) const {
    return window(from, round) + (to < from ? to : to - 1) * share();
  }
  void write_shares(const std::vector<Pieces>& send, std::size_t round) const;
  [[nodiscard]] static std::size_t longest_other(const std::vector<Pieces>& parts, int self);

  Members members_;
  int n_;
  ShmSegment segment_;
  Meeting& meeting_;
  MemberRecord* records_;
  MemberMemory* memory_;
  Watch watch_;
  std::size_t turn_ = 0;  // rounds so far; all members count alike
};

void ShmChannel::meet() {
  if (watch_.aborted()) {
    throw PeerError("it was aborted");
  }
  const std::uint32_t round = meeting_.round.load();
  if (meeting_.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(n_)) {
    meeting_.arrived.store(0);
    meeting_.round.store(round + 1);
    meeting_.bell.ring();
    return;
  }
  wait_until(meeting_.bell, watch_, -1, [&] { return meeting_.round.load() != round; });
}

std::size_t ShmChannel::longest() const {
  std::size_t result = 0;
  for (int m = 0; m < n_; ++m) {
    result = std::max<std::size_t>(result, records_[m].longest[turn_ % 2].load());
  }
  return result;
}

template <typename Write, typename Read>
void ShmChannel::play(std::size_t bytes, std::size_t step, const Write& write, const Read& read) {
  records_[members_.self].longest[turn_ % 2].store(bytes);
  write(0);
  meet();
  const std::size_t rounds = divide_up(longest(), step);
  for (std::size_t k = 1; k <= rounds; ++k) {
    if (k < rounds) {
      write(k);
    }
    read(k - 1);
    if (k < rounds) {
      meet();
    }
  }
  turn_ += std::max<std::size_t>(rounds, 1);
}

void ShmChannel::add_small(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op) {
  const std::size_t bytes = from.bytes();
  play(
      bytes, kWindow, [&](std::size_t k) { from.copy_to(window(members_.self, k), 0, bytes); },
      [&](std::size_t k) {
        std::vector<const std::byte*> terms;
        for (int m = 0; m < n_; ++m) {
          terms.push_back(window(m, k));
        }
        to.visit(0, bytes, [&](std::span<std::byte> part) {
          reduce(dtype, op, terms, part.data(), part.size());
          for (const std::byte*& term : terms) {
            term += part.size();
          }
        });
      });
}

void ShmChannel::all_reduce(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op) {
  const std::size_t bytes = from.bytes();
  if (bytes * n_ <= kAddedByAll) {
    return add_small(from, to, dtype, op);
  }
  const std::size_t rounds = divide_up(bytes, kWindow);
  const auto begin_of = [&](std::size_t k) { return std::min(k * kWindow, bytes); };
  const auto chunk = [&](std::size_t k, int m) {  // of the round's bytes, in whole cache lines
    const std::size_t size = begin_of(k + 1) - begin_of(k);
    return std::min(size, divide_up(size, n_ * kAlign) * kAlign * m);
  };
  const auto write = [&](std::size_t k) {
    const std::size_t begin = begin_of(k);
    const std::size_t mine[2] = {chunk(k, members_.self), chunk(k, members_.self + 1)};
    Window out = window(members_.self, k);
    from.copy_to(out, begin, begin + mine[0]);
    from.copy_to(out + mine[1], begin + mine[1], begin_of(k + 1));
  };
  const auto add = [&](std::size_t k) {
    const std::size_t first = chunk(k, members_.self);
    std::vector<const std::byte*> terms(n_);
    for (int m = 0; m < n_; ++m) {
      terms[m] = window(m, k) + first;
    }
    Window out = sums(members_.self, k);
    const std::size_t begin = begin_of(k);
    from.visit(begin + first, begin + chunk(k, members_.self + 1), [&](std::span<std::byte> part) {
      terms[members_.self] = part.data();
      reduce(dtype, op, terms, out, part.size());
      for (const std::byte*& term : terms) {
        term += part.size();
      }
      out += part.size();
    });
  };
  const auto take = [&](std::size_t k) {
    for (int i = 0; i < n_; ++i) {
      const int m = (members_.self + i) % n_;
      to.copy_from(sums(m, k), begin_of(k) + chunk(k, m), begin_of(k) + chunk(k, m + 1));
    }
  };
  for (std::size_t k = 0; k < rounds + 2; ++k) {
    if (k < rounds) {
      write(k);
    }
    if (k > 0 && k <= rounds) {
      add(k - 1);
    }
    if (k > 1) {
      take(k - 2);
    }
    if (k <= rounds) {
      meet();
    }
  }
  turn_ += rounds + 1;
}

std::size_t ShmChannel::longest_other(const std::vector<Pieces>& parts, int self) {
  std::size_t result = 0;
  for (std::size_t m = 0; m < parts.size(); ++m) {
    result = std::max(result, static_cast<int>(m) == self ? 0 : parts[m].bytes());
  }
  return result;
}

void ShmChannel::write_shares(const std::vector<Pieces>& send, std::size_t round) const {
  for (int m = 0; m < n_; ++m) {
    if (m != members_.self) {
      const std::size_t bytes = send[m].bytes();
      send[m].copy_to(share_of(members_.self, m, round), std::min(round * share(), bytes),
                      std::min((round + 1) * share(), bytes));
    }
  }
}

void ShmChannel::exchange(const std::vector<Pieces>& send, const std::vector<Pieces>& recv) {
  play(
      longest_other(send, members_.self), share(), [&](std::size_t k) { write_shares(send, k); },
      [&](std::size_t k) {
        for (int i = 1; i < n_; ++i) {
          const int m = (members_.self + i) % n_;
          const std::size_t bytes = recv[m].bytes();
          recv[m].copy_from(share_of(m, members_.self, k), std::min(k * share(), bytes),
                            std::min((k + 1) * share(), bytes));
        }
      });
}

void ShmChannel::all_gather(const Pieces& send, const std::vector<Pieces>& recv) {
  play(
      send.bytes(), kWindow,
      [&](std::size_t k) {
        send.copy_to(window(members_.self, k), std::min(k * kWindow, send.bytes()),
                     std::min((k + 1) * kWindow, send.bytes()));
      },
      [&](std::size_t k) {
        for (int i = 1; i < n_; ++i) {
          const int m = (members_.self + i) % n_;
          recv[m].copy_from(window(m, k), std::min(k * kWindow, recv[m].bytes()),
                            std::min((k + 1) * kWindow, recv[m].bytes()));
        }
      });
}

void ShmChannel::broadcast(int root, const Pieces& data) {
  std::vector<Pieces> recv(n_);
  if (members_.self != root) {
    recv[root] = data;
  }
  all_gather(members_.self == root ? data : Pieces(), recv);
}

void ShmChannel::reduce_scatter(const std::vector<Pieces>& parts, const Pieces& to, DType dtype,
                                ReduceOp op) {
  const Pieces& own = parts[members_.self];
  const auto add = [&](std::size_t k) {
    std::size_t at = std::min(k * share(), own.bytes());
    std::vector<const std::byte*> terms(n_);
    for (int m = 0; m < n_; ++m) {
      terms[m] = m == members_.self ? nullptr : share_of(m, members_.self, k);
    }
    own.visit(at, std::min((k + 1) * share(), own.bytes()), [&](std::span<std::byte> part) {
      terms[members_.self] = part.data();
      to.visit(at, at + part.size(), [&](std::span<std::byte> out) {
        reduce(dtype, op, terms, out.data(), out.size());
        for (const std::byte*& term : terms) {
          term += out.size();
        }
      });
      at += part.size();
    });
  };
  play(
      longest_other(parts, members_.self), share(), [&](std::size_t k) { write_shares(parts, k); },
      add);
}

}  // namespace

std::unique_ptr<Channel> make_shm_channel(Store& store, const Members& members) {
  const std::vector<int> pids = exchange_pids(store, members);
  auto segment = ShmSegment::share(store, members, ShmChannel::bytes_for(members.count()));
  if (!segment) {
    return nullptr;
  }
  return std::make_unique<ShmChannel>(members, std::move(*segment), pids);
}

}  // namespace weft
