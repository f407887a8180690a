#include "weft/kernels/torch_headers.h"

#include "watch_peers.h"

#include <random>

#include "weft/launch/line_socket.h"
#include "weft/runtime/communicator.h"

namespace weft {

// Rank 0 listens; where, and the key, it tells the others by a sum in which they add nothing.
bool watch_peers(const WorkerOptions& options, const JobPlace& place, Communicator& communicator,
                 WorkerContext& context) {
  if (context.reporter.connected() || communicator.world() == 1) {
    return false;
  }
  PeerWatchSpec spec{
      .rank = communicator.rank(), .world = communicator.world(), .host = place.rendezvous.host};
  spec.patience.silence_s = options.patience_s;
  spec.patience.stuck_s = options.patience_s;
  std::int64_t where[2] = {0, 0};
  if (spec.rank == 0) {
    const Listener listener = listen_at(spec.host);
    spec.listener = listener.fd;
    where[0] = listener.port;
    where[1] = static_cast<std::int64_t>(std::random_device()());
  }
  communicator.all_reduce(0, at::from_blob(where, {2}, at::TensorOptions(at::kLong)));
  spec.port = static_cast<int>(where[0]);
  spec.key = static_cast<std::uint64_t>(where[1]);
  context.watch = std::make_unique<PeerWatch>(spec, context.activity, context.on_end);
  return true;
}

}  // namespace weft
