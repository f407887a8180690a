// What libFuzzer calls. WEFT_FUZZ_TARGET is one of the readers of fuzz.h.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string wrong =
      weft::fuzz::complaint(WEFT_FUZZ_TARGET, {reinterpret_cast<const char*>(data), size});
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
