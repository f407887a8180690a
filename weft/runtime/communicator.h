#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"

namespace at {
class Tensor;
}

namespace weft {

/// A peer or the network failed: most likely the consequence of an error elsewhere.
class PeerError : public Error {
 public:
  explicit PeerError(const std::string& message) : Error(Blame::environment, message) {}
};

struct Rendezvous {
  std::string host = "127.0.0.1";  // of rank 0, which hosts the store
  int port = 0;
  int rank = 0;
  int world = 1;
  std::string job = {};    // the same on all ranks, and on those of no other job; "": not known
  double timeout_s = 300;  // of every operation
  /// How groups talk: "shm", "gloo", "nccl", or "" for the best that all members can use. The
  /// environment variable WEFT_COMM says it where this does not.
  std::string path = {};
};

/// A transfer that is under way. Its tensor stays alive until it was waited for.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Throws PeerError.
  virtual void wait() = 0;
};

enum class ReduceOp : std::uint8_t { sum, max };

/// What ranks tell each other: the narrow waist between weft and shared memory, Gloo or NCCL. Ranks
/// agree on sizes and dtypes (programs are checked before they run). Tensors need not be
/// contiguous: those that are not go through a packed copy. Parts may be of unequal size, or empty.
///
/// Collectives block; CommunicationLane runs them beside the compute thread. All throw PeerError
/// when a peer is gone or the timeout passes; the communicator is of no use afterwards.
///
/// Reductions: f64, f32, integers; bf16 and f16 are added in f32 and rounded once. The same bits on
/// every member and in every run. reduce_scatter, and all_reduce in shared memory, add in the order
/// of the members.
class Communicator {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// Blocks until all ranks have come.
  explicit Communicator(const Rendezvous& rendezvous);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&&) = delete;
  Communicator& operator=(Communicator&&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world() const;

  /// A group of ranks, in the order of its members. All members call it, in the same order of
  /// groups; the same list gives the same group again. This rank is among them. Group 0 is the
  /// world.
  int join(const std::vector<int>& ranks);
  /// "none" (a group of one), "shm", "gloo" or "nccl". The same on all members.
  [[nodiscard]] std::string_view path(int group) const;

  void all_reduce(int group, const at::Tensor& tensor, ReduceOp op = ReduceOp::sum);
  /// Several tensors of one dtype at once. to[i] may be from[i], or share no memory with it.
  void all_reduce(int group, const Tensors& from, const Tensors& to, ReduceOp op = ReduceOp::sum);
  /// parts[m] is this member's term of what member m gets. `to` may share memory with the own part.
  void reduce_scatter(int group, const Tensors& parts, const at::Tensor& to,
                      ReduceOp op = ReduceOp::sum);
  /// Several at once: parts[m][i] is a term of to[i] on member m.
  void reduce_scatter(int group, const std::vector<Tensors>& parts, const Tensors& to,
                      ReduceOp op = ReduceOp::sum);
  /// Fills to[m] with what member m gives; to[self] may be `from` itself.
  void all_gather(int group, const at::Tensor& from, const Tensors& to);
  /// Several at once: to[m][i] is from[i] of member m. What is under the own number is skipped.
  void all_gather(int group, const Tensors& from, const std::vector<Tensors>& to);
  /// send[m] goes to member m, recv[m] comes from it. The own part is copied.
  void all_to_all(int group, const Tensors& send, const Tensors& recv);
  /// Sends send[m][i] to member m and fills recv[m][i] with what m sends: lists of tensors by
  /// member. Empty tensors, and what is under the own number, are skipped.
  void exchange(int group, const std::vector<Tensors>& send, const std::vector<Tensors>& recv);
  void broadcast(int group, int root, const at::Tensor& tensor);
  void barrier(int group = 0);

  /// Start at once and return. Transfers between two ranks with the same tag match in order.
  [[nodiscard]] std::unique_ptr<Transfer> send(int to, const at::Tensor& tensor, int tag);
  [[nodiscard]] std::unique_ptr<Transfer> receive(int from, const at::Tensor& tensor, int tag);

  /// Makes what is under way fail here, so that threads which wait for it go on. May be called from
  /// any thread.
  void abort();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
