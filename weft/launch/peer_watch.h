#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "weft/launch/pulse.h"

namespace weft {

struct PeerWatchSpec {
  int rank = 0;
  int world = 1;
  std::string host = "127.0.0.1";  // of rank 0
  int port = 0;                    // where rank 0 listens
  std::uint64_t key = 0;           // the same on all ranks: strangers do not know it
  int listener = -1;               // rank 0's; the watch closes it
  Patience patience = {};
};

/// The ranks watch each other where no launcher of weft does (torchrun, srun, mpirun; several
/// hosts). Each sends heartbeats to rank 0 and rank 0 to each. Rank 0 finds the first cause of a
/// failure and tells all; a rank that hears nothing of rank 0 ends by itself. Works on a thread of
/// its own.
class PeerWatch {
 public:
  /// Called on that thread, at most once, when the job must end: with the first cause.
  using OnEnd = std::function<void(const std::string& cause)>;

  /// Connects to rank 0. Throws Error{environment}.
  PeerWatch(const PeerWatchSpec& spec, const Activity& activity, OnEnd on_end);
  /// As `leave`.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  PeerWatch(PeerWatch&&) = delete;
  PeerWatch& operator=(PeerWatch&&) = delete;

  /// This rank fails (`consequence`: because a peer did). Tells the others; gives the first cause
  /// of the job, known after at most two seconds. `on_end` is not called any more.
  [[nodiscard]] std::string fail(const std::string& message, bool consequence);
  /// This rank has done its work; all others have done theirs too or are about to.
  void leave();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
