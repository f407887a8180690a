#include "weft/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace weft {
namespace {

constexpr std::size_t kMostThreads = 8;  // more would wait for memory

}  // namespace

void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(count);
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t threads = std::min({count, cores, kMostThreads});
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < threads; ++t) {
      others.emplace_back(take);
    }
    take();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

}  // namespace weft
