#pragma once

#include <cstdint>

namespace weft {

/// Bytes of all CPU tensors of this process, as requested (not as rounded), so they compare with
/// types.
struct MemoryCount {
  std::int64_t current_bytes = 0;
  std::int64_t peak_bytes = 0;      // since the last reset
  std::int64_t reserved_bytes = 0;  // taken from the system: in use and cached
};

/// Makes libtorch allocate CPU tensors through weft's counting allocator: 64-byte aligned, with a
/// cache of freed blocks (fresh pages cost more than most kernels). Call before the first tensor is
/// made; calling it again is harmless. Thread-safe, like all functions here.
void install_counting_allocator();

[[nodiscard]] MemoryCount memory_count();
/// The peak begins anew at what is in use.
void reset_memory_peak();
/// More than this many requested bytes at a time throw c10::OutOfMemoryError. 0: no limit.
void set_memory_budget(std::int64_t bytes);
/// Gives the cached blocks back to the system.
void release_memory_cache();

}  // namespace weft
