#include "weft/launch/fault.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

std::int64_t number(std::string_view text, const std::string& whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(),
          "WEFT_FAULT is '{}': '{}' is not a number", whole, text);
  return value;
}

// Files stay as long as they are and new ones get this much: a write is cut short, the next one
// fails. It is the kernel that does it, as with a full disk; only the reason it gives differs.
void let_no_file_grow() {
  const rlimit limit = {.rlim_cur = 700, .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

// When it struck, for who measures how long others take to notice.
void leave_mark() {
  const char* path = std::getenv("WEFT_FAULT_MARK");  // NOLINT(concurrency-mt-unsafe)
  if (path != nullptr) {
    const double now_s =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::ofstream(path) << std::fixed << now_s << std::endl;
  }
}

}  // namespace

FaultSpec parse_fault(const std::string& text) {
  FaultSpec spec;
  const std::size_t cut = text.find('@');
  spec.kind = text.substr(0, cut);
  const auto kinds = {"exception", "kill", "stop", "hang", "exit", "full"};
  require(cut != std::string::npos && std::ranges::find(kinds, spec.kind) != kinds.end(),
          "WEFT_FAULT is '{}'; it is written like exception@rank=1,step=2,phase=backward", text);
  std::string_view rest = std::string_view(text).substr(cut + 1);
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    require(equals != std::string_view::npos, "WEFT_FAULT is '{}': '{}' is not KEY=VALUE", text,
            word);
    const std::string_view value = word.substr(equals + 1);
    if (key == "phase") {
      spec.phase = value;
    } else if (key == "rank") {
      spec.rank = static_cast<int>(number(value, text));
    } else if (key == "step") {
      spec.step = number(value, text);
    } else if (key == "restart") {
      spec.restart = static_cast<int>(number(value, text));
    } else {
      require(false, "WEFT_FAULT is '{}': no such key: {}", text, key);
    }
  }
  require(!spec.phase.empty(), "WEFT_FAULT is '{}': phase=… is missing", text);
  return spec;
}

Fault::Fault(FaultSpec spec, int rank, int restart)
    : spec_(std::move(spec)), armed_(spec_.rank == rank && spec_.restart == restart) {
}

std::unique_ptr<Fault> Fault::from_environment(int rank) {
  // NOLINTBEGIN(concurrency-mt-unsafe): nobody sets them
  const char* text = std::getenv("WEFT_FAULT");
  const char* restart = std::getenv("WEFT_RESTART");
  // NOLINTEND(concurrency-mt-unsafe)
  if (text == nullptr || *text == '\0') {
    return nullptr;
  }
  return std::make_unique<Fault>(parse_fault(text), rank,
                                 restart == nullptr ? 0 : std::atoi(restart));
}

void Fault::at(std::int64_t step, std::string_view phase) {
  if (!armed_ || phase != spec_.phase || (spec_.step >= 0 && step != spec_.step) ||
      !armed_.exchange(false)) {
    return;
  }
  leave_mark();
  if (spec_.kind == "exception") {
    fail_environment("an exception that WEFT_FAULT asked for");
  } else if (spec_.kind == "kill") {
    ::raise(SIGKILL);
  } else if (spec_.kind == "stop") {
    ::raise(SIGSTOP);
  } else if (spec_.kind == "exit") {
    std::_Exit(3);
  } else if (spec_.kind == "full") {
    let_no_file_grow();
  } else {
    for (;;) {
      ::pause();
    }
  }
}

}  // namespace weft
