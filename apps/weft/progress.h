#pragma once

#include <chrono>
#include <string>

namespace weft {

/// A bar on the standard error stream if it is a terminal, nothing elsewhere. It appears after a
/// second, so that quick work stays silent, and is wiped when it ends.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title, bool quiet = false);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ProgressBar(ProgressBar&&) = delete;
  ProgressBar& operator=(ProgressBar&&) = delete;

  /// `share` in [0, 1]; `note` stands behind the bar.
  void update(double share, const std::string& note = {});
  void wipe();
  [[nodiscard]] bool on_terminal() const { return terminal_; }

 private:
  std::string title_;
  bool terminal_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace weft
