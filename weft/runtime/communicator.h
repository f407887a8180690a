#pragma once

#include <cstdint>
#include <memory>
#include <string>
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
  double timeout_s = 300;  // of every operation
};

/// A transfer that is under way. Its tensor stays alive until it was waited for.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Throws PeerError.
  virtual void wait() = 0;
};

/// What ranks tell each other: the narrow waist between weft and c10d. All tensors are contiguous
/// CPU tensors; ranks agree on sizes and dtypes (programs are checked before they run). Blocking
/// calls throw PeerError when a peer is gone or the timeout passes; the communicator is of no use
/// afterwards.
class Communicator {
 public:
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

  /// The sum over the group, in place. The same bits on every member and in every run. f32, f64 and
  /// integers.
  void all_reduce(int group, const at::Tensor& tensor);
  /// Sends send[m][i] to member m and fills recv[m][i] with what m sends: lists of tensors by
  /// member. Empty tensors, and what is under the own number, are skipped.
  void exchange(int group, const std::vector<std::vector<at::Tensor>>& send,
                const std::vector<std::vector<at::Tensor>>& recv);

  /// Start at once and return. Transfers between two ranks with the same tag match in order.
  [[nodiscard]] std::unique_ptr<Transfer> send(int to, const at::Tensor& tensor, int tag);
  [[nodiscard]] std::unique_ptr<Transfer> receive(int from, const at::Tensor& tensor, int tag);

  void barrier();
  /// Makes transfers that are under way fail here, so that threads which wait for them go on. May
  /// be called from any thread.
  void abort();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
