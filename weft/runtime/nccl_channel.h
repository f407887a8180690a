#pragma once

#include <memory>
#include <string>

#include "weft/runtime/channel.h"

namespace weft {

/// Collectives of NCCL on memory of CUDA devices: each rank's current one. The library is looked
/// for when it is asked for: in what the process has loaded (libtorch may hold it), else
/// libnccl.so.2, or the file that WEFT_NCCL names. Throws Error{environment} on all members if one
/// of them has none.
[[nodiscard]] std::unique_ptr<Channel> make_nccl_channel(Store& store, const Members& members);

}  // namespace weft
