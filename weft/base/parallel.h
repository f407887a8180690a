#pragma once

#include <cstddef>
#include <functional>

namespace weft {

/// Calls `work` for 0 … count - 1, on as many threads as there are cores. The calls must not touch
/// what others change. If some throw, the exception of the first index is thrown when all are done.
void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace weft
