#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace weft {
namespace {

constexpr int kCells = 30;

}  // namespace

ProgressBar::ProgressBar(std::string title, bool quiet)
    : title_(std::move(title)),
      terminal_(!quiet && isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()) {
}

ProgressBar::~ProgressBar() {
  wipe();
}

void ProgressBar::update(double share, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  const bool early = now - begin_ < std::chrono::seconds(1) && share < 1;
  if (!terminal_ || early || (drawn_ && now - last_ < std::chrono::milliseconds(80))) {
    return;
  }
  last_ = now;
  drawn_ = true;
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * kCells);
  std::string bar;
  for (int i = 0; i < kCells; ++i) {
    bar += i < full ? "█" : "░";
  }
  fmt::print(stderr, "\r\033[K{} {} {:3.0f} % {}", title_, bar, 100 * share, note);
  std::fflush(stderr);
}

void ProgressBar::wipe() {
  if (drawn_) {
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
    drawn_ = false;
  }
}

}  // namespace weft
