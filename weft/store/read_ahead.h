#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "weft/store/dataset.h"

namespace weft {

/// Reads the batch of the next step while this one is computed: one thread, one step ahead.
class ReadAhead {
 public:
  using Read = std::function<SampleBatch(std::int64_t step)>;

  /// Begins to read step `first` at once; none from `end` on. `read` is called on the thread alone.
  ReadAhead(Read read, std::int64_t first, std::int64_t end);
  /// Waits for a read that is under way.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ReadAhead(ReadAhead&&) = delete;
  ReadAhead& operator=(ReadAhead&&) = delete;

  /// The batch of the next step; steps come in order. What `read` throws is thrown here, and again
  /// by each later call.
  [[nodiscard]] SampleBatch next();

 private:
  void work();

  Read read_;
  std::int64_t step_ = 0;  // to read next; the thread's own
  std::int64_t end_ = 0;
  std::int64_t left_ = 0;  // batches that `next` may still give
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SampleBatch> ready_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft
