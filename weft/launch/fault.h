#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

/// A fault that a test asks for with the environment variable WEFT_FAULT:
/// "KIND@rank=1,step=2,phase=backward". Without the variable there is none.
///   kind   exception | kill (SIGKILL) | stop (SIGSTOP) | hang (the thread sleeps for ever) |
///          exit (leaves without a word) | full (no file may grow any more: from here on writes
///          fail after a part, as on a full disk)
///   rank   which one; `step`, default any; `restart`, default 0: in which attempt of the job
///   phase  start | load | forward | backward | … | collective | end | save | write | commit
/// WEFT_FAULT_MARK names a file that gets the time at which it strikes.
struct FaultSpec {
  std::string kind = {};
  int rank = 0;
  std::int64_t step = -1;
  int restart = 0;
  std::string phase = {};
};

/// Throws Error{input} for what it does not understand.
[[nodiscard]] FaultSpec parse_fault(const std::string& text);

class Fault {
 public:
  Fault(FaultSpec spec, int rank, int restart);
  /// What the environment asks of this rank, if anything.
  [[nodiscard]] static std::unique_ptr<Fault> from_environment(int rank);

  /// Strikes if this is the place. May be called from several threads. Throws Error{environment} if
  /// the kind is `exception`.
  void at(std::int64_t step, std::string_view phase);

 private:
  FaultSpec spec_;
  std::atomic<bool> armed_ = false;
};

}  // namespace weft
