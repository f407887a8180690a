#include "weft/kernels/torch_headers.h"

#include "weft/runtime/allocator.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {
namespace {

class Allocator : public testing::Test {
 protected:
  void SetUp() override {
    install_counting_allocator();
    release_memory_cache();
    reset_memory_peak();
    before_ = memory_count().current_bytes;
  }
  void TearDown() override { set_memory_budget(0); }
  [[nodiscard]] std::int64_t used() const { return memory_count().current_bytes - before_; }
  [[nodiscard]] std::int64_t peak() const { return memory_count().peak_bytes - before_; }

 private:
  std::int64_t before_ = 0;
};

TEST_F(Allocator, CountsRequestedBytesAndTheirPeak) {
  at::Tensor a = at::empty({1000, 3});
  EXPECT_EQ(used(), 12000);
  {
    const at::Tensor b = at::empty({10}, at::kLong);
    const at::Tensor none = at::empty({0, 5});
    EXPECT_EQ(used(), 12080);
  }
  EXPECT_EQ(used(), 12000);
  EXPECT_EQ(peak(), 12080);
  reset_memory_peak();
  EXPECT_EQ(peak(), 12000);
  a.reset();
  EXPECT_EQ(used(), 0);
}

TEST_F(Allocator, AlignsToACacheLine) {
  for (const std::int64_t n : {1, 7, 100, 9000, 300000}) {
    const at::Tensor t = at::empty({n});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data_ptr()) % 64, 0U) << n;
    std::memset(t.data_ptr(), 1, static_cast<std::size_t>(n) * 4);
  }
}

TEST_F(Allocator, HoldsTheBudget) {
  const at::Tensor a = at::empty({250});
  set_memory_budget(memory_count().current_bytes + 1000);
  EXPECT_NO_THROW(at::empty({250}));
  try {
    const at::Tensor b = at::empty({251});
    FAIL() << "the budget is exceeded by four bytes";
  } catch (const c10::OutOfMemoryError& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find("out of memory: 1004 B wanted"), std::string::npos) << text;
  }
  EXPECT_EQ(used(), 1000) << "a refused request counts nothing";
}

TEST_F(Allocator, ReusesFreedBlocks) {
  void* first = nullptr;
  {
    const at::Tensor a = at::empty({1 << 20});
    first = a.data_ptr();
  }
  const std::int64_t reserved = memory_count().reserved_bytes;
  const at::Tensor smaller = at::empty({(1 << 20) - 5000});
  EXPECT_EQ(smaller.data_ptr(), first);
  EXPECT_EQ(used(), ((1 << 20) - 5000) * 4);
  EXPECT_EQ(memory_count().reserved_bytes, reserved);
  const at::Tensor tiny = at::empty({1 << 16});
  EXPECT_GT(memory_count().reserved_bytes, reserved) << "nothing was cached for it";
}

TEST_F(Allocator, CacheStaysWithinTheBudget) {
  set_memory_budget(memory_count().current_bytes + (5 << 20));
  const std::int64_t reserved = memory_count().reserved_bytes;
  for (const std::int64_t mib : {3, 4, 1, 2, 5}) {
    const at::Tensor t = at::empty({mib << 20}, at::kByte);
    EXPECT_LE(memory_count().reserved_bytes - reserved, 5 << 20);
  }
}

TEST_F(Allocator, CountsRightFromManyThreads) {
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) {
          const at::Tensor a = at::empty({(t + 1) * 10000 + i});
          const at::Tensor b = at::empty({i + 1});
        }
      });
    }
  }
  EXPECT_EQ(used(), 0);
}

}  // namespace
}  // namespace weft
