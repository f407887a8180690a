#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace weft {

/// Who has to act. The command line turns it into the exit code.
enum class Blame { input, environment, no_fit, bug };

/// The only exception type that weft throws.
class Error : public std::runtime_error {
 public:
  Error(Blame blame, const std::string& message) : std::runtime_error(message), blame_(blame) {}
  [[nodiscard]] Blame blame() const { return blame_; }

 private:
  Blame blame_;
};

/// Rejects bad user input: a model, a cluster file, a flag.
template <typename... Args>
void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) {
    throw Error(Blame::input, fmt::format(format, std::forward<Args>(args)...));
  }
}

/// Reports what the machine refused: a file, the network, a worker that died.
template <typename... Args>
[[noreturn]] void fail_environment(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Blame::environment, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace weft

/// States what must hold if weft itself is right. No input can make it fail.
#define WEFT_CHECK(condition) \
  ((condition) ? void() : ::weft::fail_check(#condition, __FILE__, __LINE__))
