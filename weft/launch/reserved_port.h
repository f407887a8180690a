#pragma once

namespace weft {

/// A TCP port of the loopback interface. While this lives the system gives it to nobody who asks
/// for any free port; whoever is told its number can listen at it (with SO_REUSEADDR, as c10d
/// does).
class ReservedPort {
 public:
  /// Throws Error{environment}.
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  ReservedPort(ReservedPort&&) = delete;
  ReservedPort& operator=(ReservedPort&&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int fd_ = -1;
  int number_ = 0;
};

}  // namespace weft
