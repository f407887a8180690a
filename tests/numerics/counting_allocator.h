#pragma once

#include "weft/kernels/torch_headers.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace weft {

/// Counts the bytes of CPU tensors as they are asked for.
class CountingAllocator final : public c10::Allocator {
 public:
  /// Makes it libtorch's allocator for the rest of the process.
  static CountingAllocator& install() {
    static CountingAllocator allocator;
    static const bool kInstalled = [] {
      c10::SetCPUAllocator(&allocator, 1);
      return true;
    }();
    (void)kInstalled;
    return allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) const override {
    constexpr std::size_t kAlign = 64;
    void* block = std::aligned_alloc(kAlign, (bytes + kAlign) / kAlign * kAlign);
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_[block] = static_cast<std::int64_t>(bytes);
    current_ += static_cast<std::int64_t>(bytes);
    peak_ = std::max(peak_, current_);
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  [[nodiscard]] std::int64_t current() const { return current_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = current_; }

 private:
  static void release(void* block) {
    CountingAllocator& self = install();
    const std::lock_guard<std::mutex> lock(self.mutex_);
    self.current_ -= self.sizes_.at(block);
    self.sizes_.erase(block);
    std::free(block);
  }

  mutable std::mutex mutex_;
  mutable std::map<void*, std::int64_t> sizes_;
  mutable std::int64_t current_ = 0;
  mutable std::int64_t peak_ = 0;
};

}  // namespace weft
