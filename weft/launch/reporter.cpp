#include "weft/launch/reporter.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace weft {

Reporter::Reporter() {
  const char* text =
      std::getenv("WEFT_REPORT_FD");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (text == nullptr || *text == '\0') {
    return;
  }
  char* end = nullptr;
  const long fd = std::strtol(text, &end, 10);
  // A variable that was left over from another process names no open descriptor.
  if (*end == '\0' && fd >= 0 && ::fcntl(static_cast<int>(fd), F_GETFD) >= 0) {
    fd_ = static_cast<int>(fd);
  }
}

void Reporter::send(const nlohmann::json& message) const {
  if (fd_ < 0) {
    return;
  }
  // Text of exceptions may hold any bytes; replace what is not UTF-8 rather than lose the message.
  const std::string line =
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::lock_guard lock(mutex_);
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = ::write(fd_, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return;  // the launcher is gone; the parent-death signal ends this process
    }
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace weft
