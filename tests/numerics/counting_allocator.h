#pragma once

#include "weft/kernels/torch_headers.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace weft {

/// Counts the bytes of CPU tensors as they are asked for. Each block carries its size in front.
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
    char* block = static_cast<char*>(c10::alloc_cpu(bytes + kHeader));
    std::memcpy(block, &bytes, sizeof(bytes));
    current_ += static_cast<std::int64_t>(bytes);
    peak_ = std::max(peak_.load(), current_.load());
    return {block + kHeader, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;  // data and context differ
  }

  [[nodiscard]] std::int64_t current() const { return current_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = current_.load(); }

 private:
  static constexpr std::size_t kHeader = 64;  // keeps the alignment

  static void release(void* block) {
    std::size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof(bytes));
    install().current_ -= static_cast<std::int64_t>(bytes);
    c10::free_cpu(block);
  }

  mutable std::atomic<std::int64_t> current_ = 0;
  mutable std::atomic<std::int64_t> peak_ = 0;
};

}  // namespace weft
