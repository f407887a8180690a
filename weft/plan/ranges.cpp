#include "weft/plan/ranges.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "weft/base/error.h"

namespace weft {
namespace {

/// A short range of long names must not fill the memory.
constexpr std::size_t kLongestPrefix = 200;

/// The whole text as a number as we write it: digits, no leading zero.
std::optional<std::int64_t> plain_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  const bool plain = whole && (text.size() == 1 || text[0] != '0') && text[0] != '-';
  return plain ? std::optional(number) : std::nullopt;
}

/// "h.11" is prefix "h." and number 11.
struct Numbered {
  std::string_view prefix;
  std::int64_t number = 0;
};

std::optional<Numbered> numbered(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::size_t digits = last == std::string_view::npos ? 0 : last + 1;
  const std::optional<std::int64_t> number = plain_number(name.substr(digits));
  if (!number) {
    return std::nullopt;
  }
  return Numbered{.prefix = name.substr(0, digits), .number = *number};
}

/// Where the run of consecutive names that begins at `begin` ends.
std::size_t run_end(const std::vector<std::string>& names, std::size_t begin) {
  const std::optional<Numbered> first = numbered(names[begin]);
  std::size_t end = begin + 1;
  for (; first && end < names.size(); ++end) {
    const std::optional<Numbered> next = numbered(names[end]);
    if (!next || next->prefix != first->prefix ||
        next->number != first->number + static_cast<std::int64_t>(end - begin)) {
      break;
    }
  }
  return end;
}

}  // namespace

std::string format_devices(const std::vector<DeviceId>& devices) {
  std::string text;
  for (std::size_t begin = 0; begin < devices.size();) {
    std::size_t end = begin + 1;
    while (end < devices.size() && devices[end] == devices[end - 1] + 1) {
      ++end;
    }
    text += text.empty() ? "" : ",";
    text += fmt::format("{}", devices[begin]);
    if (end - begin > 1) {
      text += fmt::format("-{}", devices[end - 1]);
    }
    begin = end;
  }
  return text;
}

std::vector<DeviceId> parse_devices(std::string_view text) {
  std::vector<DeviceId> devices;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    const std::size_t dash = entry.find('-');
    const std::optional<std::int64_t> first = plain_number(entry.substr(0, dash));
    const std::optional<std::int64_t> last =
        dash == std::string_view::npos ? first : plain_number(entry.substr(dash + 1));
    require(first && last && *first <= *last && *last < kLongestList,
            "devices '{}': '{}' is not understood; write numbers and ranges such as 0-7,16", text,
            entry);
    require(static_cast<std::int64_t>(devices.size()) + *last - *first < kLongestList,
            "devices '{}' are more than {}", text, kLongestList);
    for (std::int64_t device = *first; device <= *last; ++device) {
      devices.push_back(static_cast<DeviceId>(device));
    }
    begin = end + 1;
  }
  return devices;
}

std::vector<std::string> shorten_names(const std::vector<std::string>& names) {
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = run_end(names, begin);
    entries.push_back(names[begin]);
    if (end - begin > 1) {
      entries.back() += ".." + names[end - 1];
    }
    begin = end;
  }
  return entries;
}

void append_names(std::string_view entry, std::vector<std::string>& names) {
  const std::size_t dots = entry.find("..");
  if (dots == std::string_view::npos) {
    names.emplace_back(entry);
    return;
  }
  const std::optional<Numbered> first = numbered(entry.substr(0, dots));
  const std::optional<Numbered> last = numbered(entry.substr(dots + 2));
  require(first && last && first->prefix == last->prefix && first->number <= last->number,
          "'{}' is no range of names; write it as h.0..h.11", entry);
  const std::int64_t count = last->number - first->number;  // one less
  require(count < kLongestList - static_cast<std::int64_t>(names.size()),
          "'{}' has more than {} names", entry, kLongestList);
  require(first->prefix.size() <= kLongestPrefix,
          "'{}' is no range of names: they have more than {} characters", entry, kLongestPrefix);
  for (std::int64_t i = 0; i <= count; ++i) {
    names.push_back(fmt::format("{}{}", first->prefix, first->number + i));
  }
}

}  // namespace weft
