#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>

namespace weft {

/// The worker's end of the report pipe (WEFT_REPORT_FD). Writes whole lines; does nothing where
/// there is no pipe. Safe to call from several threads. The process should ignore SIGPIPE: a
/// launcher that is gone is no error here.
class Reporter {
 public:
  Reporter();
  [[nodiscard]] bool connected() const { return fd_ >= 0; }
  void send(const nlohmann::json& message) const;

 private:
  int fd_ = -1;
  mutable std::mutex mutex_;
};

}  // namespace weft
