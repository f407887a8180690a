#pragma once

#include <memory>

#include "weft/runtime/channel.h"

namespace weft {

/// Collectives through memory that all members map. Nothing if they cannot share memory: the same
/// answer on all members. Uses kShmBytesOfMember of shared memory for each member, whatever is
/// sent; these bytes are no tensor memory.
[[nodiscard]] std::unique_ptr<Channel> make_shm_channel(Store& store, const Members& members);

inline constexpr std::size_t kShmWindow = std::size_t{512} << 10U;
inline constexpr std::size_t kShmBytesOfMember = 4 * kShmWindow + 4096;

/// Transfers between ranks of one host: the receiver copies from the sender's memory
/// (process_vm_readv), once, in a thread of its own or while it waits. Nothing if the system does
/// not allow it.
[[nodiscard]] std::unique_ptr<Mailbox> make_shm_mailbox(Store& store, const Members& members);

}  // namespace weft
