#include <algorithm>
#include <charconv>
#include <exception>

#include "fuzz.h"
#include "weft/base/error.h"

namespace weft::fuzz {

std::string complaint(Read read, std::string_view bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    return error.blame() == Blame::input && error.what()[0] != 0
               ? ""
               : fmt::format("an error that does not blame the input: '{}'", error.what());
  } catch (const std::exception& error) {
    return fmt::format("an exception that is no weft::Error: {}", error.what());
  }
  return "";
}

double layers_of(std::string_view description) {
  double layers = 0;
  for (const std::string_view key : {"layers=", "depths=", "sizes="}) {
    for (std::size_t at = description.find(key); at < description.size();
         at = description.find(key, at)) {
      at += key.size();
      const std::size_t end = std::min(description.find(',', at), description.size());
      while (at < end) {
        double count = 0;
        const char* const stop = description.data() + end;
        const char* const next = std::from_chars(description.data() + at, stop, count).ptr;
        layers += key == "sizes=" ? 1 : count;
        at = static_cast<std::size_t>(next - description.data()) + 1;
      }
    }
  }
  // More than any family allows is refused before anything is built, which shall be seen.
  constexpr double refused = 20'100;
  return layers > refused ? 0 : layers;
}

}  // namespace weft::fuzz
