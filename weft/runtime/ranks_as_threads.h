#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "weft/launch/reserved_port.h"
#include "weft/runtime/communicator.h"

namespace weft {

/// For tests: runs `body` once for each of n ranks, as threads that are really connected. The first
/// exception of the lowest rank is thrown again when all have ended.
inline void run_ranks(int n, const std::function<void(Communicator&)>& body,
                      const std::string& path = "") {
  const ReservedPort port;
  std::vector<std::exception_ptr> errors(n);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          Communicator communicator({.host = "127.0.0.1",
                                     .port = port.number(),
                                     .rank = rank,
                                     .world = n,
                                     .timeout_s = 20,
                                     .path = path});
          body(communicator);
          communicator.barrier();
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
}

}  // namespace weft
