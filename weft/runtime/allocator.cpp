// Every block has a header in front of its data, one cache line long so that the data stays
// aligned:
//
//   | requested, capacity, padding to 64 | data … |
//
// Blocks of kCacheFrom bytes and more go to a free list by capacity when they are freed, and serve
// the next request that is not much smaller. Training repeats the same requests every step, so from
// the second step on nearly all are served from there. The cache never takes the reserved bytes
// beyond the budget.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "weft/base/units.h"

namespace weft {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kCacheFrom = 32 << 10;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kSlackWithoutBudget = std::size_t{256} << 20U;

struct Header {
  std::size_t requested = 0;
  std::size_t capacity = 0;  // of the data
};
static_assert(sizeof(Header) <= kAlignment);

Header* header_of(void* data) {
  return reinterpret_cast<Header*>(static_cast<char*>(data) - kAlignment);
}

// libtorch's interface differs: allocate() is const in 1.13 and not in 2.x, which also asks for
// copy_data(). Without `override`, each version finds its own and passes over the rest.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) {
    void* data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DataPtr allocate(std::size_t bytes) const {
    return const_cast<CountingAllocator*>(this)->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

  MemoryCount count() {
    const std::lock_guard lock(mutex_);
    return {.current_bytes = static_cast<std::int64_t>(current_),
            .peak_bytes = static_cast<std::int64_t>(peak_),
            .reserved_bytes = static_cast<std::int64_t>(reserved_)};
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = current_;
  }
  void set_budget(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    budget_ = bytes;
    trim(limit());
  }
  void release_cache() {
    const std::lock_guard lock(mutex_);
    trim(0);
  }

 private:
  static void give_back(void* data);

  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK_WITH(OutOfMemoryError, budget_ == 0 || current_ + bytes <= budget_,
                     "out of memory: ", format_bytes(static_cast<double>(bytes)), " wanted, ",
                     format_bytes(static_cast<double>(current_)), " in use, the budget is ",
                     format_bytes(static_cast<double>(budget_)), " (", bytes, " + ", current_,
                     " > ", budget_, " bytes)");
    void* data = cached(bytes);
    if (data == nullptr) {
      data = fresh(bytes);
    }
    header_of(data)->requested = bytes;
    current_ += bytes;
    peak_ = std::max(peak_, current_);
    return data;
  }

  // A cached block that wastes no more than a quarter of the request.
  void* cached(std::size_t bytes) {
    if (bytes < kCacheFrom) {
      return nullptr;
    }
    const auto it = free_.lower_bound(bytes);
    if (it == free_.end() || it->first > bytes + bytes / 4) {
      return nullptr;
    }
    void* data = it->second.back();
    it->second.pop_back();
    if (it->second.empty()) {
      free_.erase(it);
    }
    return data;
  }

  void* fresh(std::size_t bytes) {
    const std::size_t unit = bytes < kCacheFrom ? kAlignment : kPage;
    const std::size_t capacity = (bytes + unit - 1) / unit * unit;
    if (reserved_ + capacity > limit()) {
      trim(limit() > capacity ? limit() - capacity : 0);
    }
    void* block = std::aligned_alloc(kAlignment, capacity + kAlignment);
    if (block == nullptr) {
      trim(0);
      block = std::aligned_alloc(kAlignment, capacity + kAlignment);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "out of memory: the system refused ",
                     format_bytes(static_cast<double>(bytes)), ", ",
                     format_bytes(static_cast<double>(current_)), " in use");
    reserved_ += capacity;
    void* data = static_cast<char*>(block) + kAlignment;
    header_of(data)->capacity = capacity;
    return data;
  }

  void give(void* data) {
    const std::lock_guard lock(mutex_);
    const Header header = *header_of(data);
    current_ -= header.requested;
    if (header.capacity >= kCacheFrom && reserved_ <= limit()) {
      free_[header.capacity].push_back(data);
    } else {
      release(data, header.capacity);
    }
  }

  void release(void* data, std::size_t capacity) {
    reserved_ -= capacity;
    std::free(header_of(data));
  }

  // Gives cached blocks back, largest first, until no more than `keep` bytes are reserved.
  void trim(std::size_t keep) {
    while (reserved_ > keep && !free_.empty()) {
      const auto it = std::prev(free_.end());
      void* data = it->second.back();
      it->second.pop_back();
      const std::size_t capacity = it->first;
      if (it->second.empty()) {
        free_.erase(it);
      }
      release(data, capacity);
    }
  }

  [[nodiscard]] std::size_t limit() const {
    return budget_ > 0 ? budget_ : peak_ + kSlackWithoutBudget;
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by capacity
  std::size_t current_ = 0;
  std::size_t peak_ = 0;
  std::size_t reserved_ = 0;
  std::size_t budget_ = 0;
};

// libtorch keeps one allocator for the process and calls it until the very end: it is never
// destroyed.
CountingAllocator& allocator() {
  static auto* instance = new CountingAllocator;  // NOLINT(cppcoreguidelines-owning-memory)
  return *instance;
}

void CountingAllocator::give_back(void* data) {
  if (data != nullptr) {
    allocator().give(data);
  }
}

}  // namespace

void install_counting_allocator() {
  c10::SetCPUAllocator(&allocator(), 1);
}

MemoryCount memory_count() {
  return allocator().count();
}

void reset_memory_peak() {
  allocator().reset_peak();
}

void set_memory_budget(std::int64_t bytes) {
  allocator().set_budget(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
}

void release_memory_cache() {
  allocator().release_cache();
}

}  // namespace weft
