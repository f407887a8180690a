// A page of shared memory under a sequence lock: `ticks` is odd while the one writer changes the
// rest, and a reader that saw it odd or changed reads again. All words are atomic and relaxed, so
// torn reads are harmless. The memory is an anonymous file: when both processes are gone, so is it.
#include "weft/launch/activity.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "weft/base/error.h"

namespace weft {

namespace {
constexpr std::size_t kWords = 30;
constexpr std::size_t kTextBytes = kWords * sizeof(std::uint64_t);
constexpr int kReadTries =
    1000;  // a writer that was stopped within a change leaves it odd for ever
}  // namespace

struct ActivityPage {
  std::atomic<std::uint64_t> ticks;
  std::atomic<std::int64_t> step;  // 0: between steps
  std::atomic<std::int32_t> micro_batch;
  std::atomic<std::uint32_t> waits;
  std::atomic<std::uint32_t> length;
  std::array<std::atomic<std::uint64_t>, kWords> text;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(ActivityPage) <= 4096);

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

ActivityPage* map_page(int fd) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory =
      ::mmap(nullptr, sizeof(ActivityPage), PROT_READ | PROT_WRITE, flags, std::max(fd, -1), 0);
  return memory == MAP_FAILED ? nullptr : static_cast<ActivityPage*>(memory);
}

int inherited_fd() {
  const char* text = std::getenv(kActivityFd);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text == nullptr || *text == '\0' ? -1 : std::atoi(text);
}

void put_text(ActivityPage& page, std::string_view text) {
  std::array<std::uint64_t, kWords> words = {};
  const std::size_t length = std::min(text.size(), kTextBytes);
  std::memcpy(words.data(), text.data(), length);
  for (std::size_t w = 0; w * sizeof(std::uint64_t) < length; ++w) {
    page.text[w].store(words[w], kRelaxed);
  }
  page.length.store(static_cast<std::uint32_t>(length), kRelaxed);
}

template <typename Change>
void change(ActivityPage& page, const Change& function) {
  const std::uint64_t ticks = page.ticks.load(kRelaxed);
  page.ticks.store(ticks | 1U, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  function();
  page.ticks.store((ticks | 1U) + 1, std::memory_order_release);
}

ActivityView read_page(const ActivityPage& page) {
  ActivityView view;
  std::array<std::uint64_t, kWords> words = {};
  std::int64_t step = 0;
  int micro_batch = -1;
  std::size_t length = 0;
  for (int tries = 0; tries < kReadTries; ++tries) {
    const std::uint64_t before = page.ticks.load(std::memory_order_acquire);
    step = page.step.load(kRelaxed);
    micro_batch = page.micro_batch.load(kRelaxed);
    view.waits = page.waits.load(kRelaxed) != 0;
    length = std::min<std::size_t>(page.length.load(kRelaxed), kTextBytes);
    for (std::size_t w = 0; w < kWords; ++w) {
      words[w] = page.text[w].load(kRelaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    view.ticks = page.ticks.load(kRelaxed);
    if (before == view.ticks && before % 2 == 0) {
      break;
    }
  }
  std::string text(length, '\0');
  std::memcpy(text.data(), words.data(), length);
  const std::size_t cut = text.find('\n');
  view.where = step > 0 && cut != std::string::npos
                   ? place_text(step, text.substr(0, cut), micro_batch, text.substr(cut + 1))
                   : text;
  return view;
}

}  // namespace

std::string place_text(std::int64_t step, std::string_view phase, int micro_batch,
                       std::string_view name) {
  const std::string of =
      micro_batch >= 0 ? fmt::format(" of micro-batch {}", micro_batch) : std::string();
  return fmt::format("step {}, {}{}, {}", step, phase, of, name);
}

Activity::Activity() {
  page_ = map_page(inherited_fd());
  if (page_ == nullptr) {
    page_ = map_page(-1);  // the variable was left over from another process
  }
  if (page_ == nullptr) {
    fail_environment("no memory for a page: {}", std::strerror(errno));
  }
}

Activity::~Activity() {
  ::munmap(page_, sizeof(ActivityPage));
}

void Activity::enter(std::string_view what, bool waits) {
  change(*page_, [&] {
    page_->step.store(0, kRelaxed);
    page_->waits.store(waits ? 1 : 0, kRelaxed);
    put_text(*page_, what);
  });
}

void Activity::begin_step(std::int64_t step) {
  change(*page_, [&] { page_->step.store(step, kRelaxed); });
}

void Activity::instruction(std::string_view what, int micro_batch, bool waits) {
  change(*page_, [&] {
    page_->micro_batch.store(micro_batch, kRelaxed);
    page_->waits.store(waits ? 1 : 0, kRelaxed);
    put_text(*page_, what);
  });
}

void Activity::tick() {
  page_->ticks.fetch_add(2, kRelaxed);
}

ActivityView Activity::view() const {
  return read_page(*page_);
}

ActivityMonitor::ActivityMonitor() {
  fd_ = ::memfd_create("weft-activity", MFD_CLOEXEC);
  if (fd_ >= 0 && ::ftruncate(fd_, sizeof(ActivityPage)) == 0) {
    page_ = map_page(fd_);
  }
  if (page_ == nullptr) {
    fail_environment("cannot share memory with a worker: {}", std::strerror(errno));
  }
}

ActivityMonitor::ActivityMonitor(ActivityMonitor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), page_(std::exchange(other.page_, nullptr)) {
}

ActivityMonitor::~ActivityMonitor() {
  if (page_ != nullptr) {
    ::munmap(page_, sizeof(ActivityPage));
  }
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

ActivityView ActivityMonitor::view() const {
  return read_page(*page_);
}

}  // namespace weft
