#pragma once

#include <memory>

#include "weft/runtime/channel.h"

namespace weft {

/// c10d's store and groups for one job. The only door to c10d.
class GlooHost {
 public:
  /// Blocks until all ranks have come to the store, which rank 0 hosts.
  explicit GlooHost(const Rendezvous& rendezvous);
  ~GlooHost();
  GlooHost(const GlooHost&) = delete;
  GlooHost& operator=(const GlooHost&) = delete;
  GlooHost(GlooHost&&) = delete;
  GlooHost& operator=(GlooHost&&) = delete;

  [[nodiscard]] Store& store();
  [[nodiscard]] std::unique_ptr<Channel> make_channel(const Members& members);
  [[nodiscard]] std::unique_ptr<Mailbox> make_mailbox(const Members& members);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
