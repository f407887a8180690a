#include "weft/store/read_ahead.h"

#include <utility>

#include "weft/base/error.h"

namespace weft {

ReadAhead::ReadAhead(Read read, std::int64_t first, std::int64_t end)
    : read_(std::move(read)), step_(first), end_(end), left_(end - first), thread_([this] {
        work();
      }) {
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::work() {
  for (; step_ < end_; ++step_) {
    std::optional<SampleBatch> batch;
    std::exception_ptr failure;
    try {
      batch = read_(step_);
    } catch (...) {
      failure = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !ready_; });
    ready_ = std::move(batch);
    failure_ = failure;
    changed_.notify_all();
    if (stop_ || failure) {
      return;
    }
  }
}

SampleBatch ReadAhead::next() {
  std::unique_lock lock(mutex_);
  WEFT_CHECK(left_ > 0 || failure_);
  changed_.wait(lock, [this] { return ready_ || failure_; });
  if (!ready_) {
    std::rethrow_exception(failure_);
  }
  --left_;
  SampleBatch batch = std::move(*ready_);
  ready_.reset();
  changed_.notify_all();
  return batch;
}

}  // namespace weft
