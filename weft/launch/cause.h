#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace weft {

/// Why a job fails. When one worker dies the others soon fail too, because their peer is gone. The
/// cause is found by class: a worker killed by a signal, one that hangs, or one that reports an
/// error of its own (class 0) explains the rest; one that aborted or left without a word (1)
/// explains less; one that says its peer failed (2) explains nothing unless nobody else says more.
struct Cause {
  int cls = 0;
  int rank = 0;
  std::string text = {};
  int exit_code = 1;
  std::chrono::steady_clock::time_point at = {};  // when the first of all causes was heard
};

/// Keeps the better of the two; of equal ones the first.
void add_cause(std::optional<Cause>& known, Cause cause);
/// A cause of class 0 counts at once, the others after a moment in which a better one may come.
[[nodiscard]] bool is_settled(const Cause& cause);

}  // namespace weft
