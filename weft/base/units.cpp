#include "weft/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "weft/base/error.h"

namespace weft {
namespace {

struct Unit {
  std::string_view name;
  double factor = 1;
};

// A plain number stands for the base unit, so every list of accepted units begins with "".
constexpr auto kBytes = std::to_array<Unit>({{"", 1},
                                             {"B", 1},
                                             {"kB", 1e3},
                                             {"KB", 1e3},
                                             {"MB", 1e6},
                                             {"GB", 1e9},
                                             {"TB", 1e12},
                                             {"PB", 1e15},
                                             {"KiB", 0x1p10},
                                             {"MiB", 0x1p20},
                                             {"GiB", 0x1p30},
                                             {"TiB", 0x1p40},
                                             {"PiB", 0x1p50}});
constexpr auto kBandwidth = std::to_array<Unit>({{"", 1},
                                                 {"B/s", 1},
                                                 {"kB/s", 1e3},
                                                 {"KB/s", 1e3},
                                                 {"MB/s", 1e6},
                                                 {"GB/s", 1e9},
                                                 {"TB/s", 1e12},
                                                 {"KiB/s", 0x1p10},
                                                 {"MiB/s", 0x1p20},
                                                 {"GiB/s", 0x1p30},
                                                 {"TiB/s", 0x1p40},
                                                 {"bit/s", 1.0 / 8},
                                                 {"kbit/s", 1e3 / 8},
                                                 {"Mbit/s", 1e6 / 8},
                                                 {"Gbit/s", 1e9 / 8},
                                                 {"Tbit/s", 1e12 / 8}});
constexpr auto kSeconds = std::to_array<Unit>(
    {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6}, {"ns", 1e-9}, {"min", 60}});
constexpr auto kFlops = std::to_array<Unit>({{"", 1},
                                             {"FLOP/s", 1},
                                             {"kFLOP/s", 1e3},
                                             {"MFLOP/s", 1e6},
                                             {"GFLOP/s", 1e9},
                                             {"TFLOP/s", 1e12},
                                             {"PFLOP/s", 1e15},
                                             {"EFLOP/s", 1e18},
                                             {"GFLOPS", 1e9},
                                             {"TFLOPS", 1e12},
                                             {"PFLOPS", 1e15}});

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

double parse_quantity(std::string_view text, std::span<const Unit> units, std::string_view what,
                      std::string_view example) {
  const std::string_view body = trim(text);
  double number = 0;
  const auto [rest, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  require(error == std::errc{} && std::isfinite(number) && number >= 0,
          "'{}' is not {}: write a number and a unit, such as {}", text, what, example);
  const std::string_view suffix = trim(body.substr(static_cast<std::size_t>(rest - body.data())));
  for (const Unit& unit : units) {
    if (unit.name == suffix) {
      const double value = number * unit.factor;
      require(std::isfinite(value), "'{}' is too large for {}", text, what);
      return value;
    }
  }
  std::string known;
  for (const Unit& unit : units.subspan(1)) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", unit.name);
  }
  throw Error(Blame::input, fmt::format("'{}' is not {}: unknown unit '{}'; known are {}", text,
                                        what, suffix, known));
}

// Three significant digits without an exponent: 3.21, 12.0, 312; more only before the point.
std::string three_digits(double value) {
  if (value < 0.9995) {
    return value == 0 ? "0" : fmt::format("{:#.3g}", value);
  }
  // The comparisons see the number as it will be printed: 9.996 is 10.0, not 10.00.
  if (std::round(value * 100) < 1000) {
    return fmt::format("{:.2f}", value);
  }
  if (std::round(value * 10) < 1000) {
    return fmt::format("{:.1f}", value);
  }
  return fmt::format("{:.0f}", value);
}

// Units grow by `base`, from names[0] on; the largest unit in which the number is at least 1.
std::string format_quantity(double value, double base, std::span<const std::string_view> names) {
  if (!std::isfinite(value)) {
    return fmt::format("{}{}", value, names.front());
  }
  if (value < 0) {
    return "-" + format_quantity(-value, base, names);
  }
  std::size_t unit = 0;
  const double last_printed_as_base = base - 0.5;
  while (unit + 1 < names.size() && value >= last_printed_as_base) {
    value /= base;
    ++unit;
  }
  // Whole numbers of the smallest unit are counts and exact: "12 B", not "12.0 B".
  const bool exact = unit == 0 && value == std::floor(value) && value < base;
  return (exact ? fmt::format("{:.0f}", value) : three_digits(value)) + std::string(names[unit]);
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  const double bytes = std::round(parse_quantity(text, kBytes, "a number of bytes", "12GiB"));
  require(bytes < static_cast<double>(std::numeric_limits<std::int64_t>::max()),
          "'{}' is too large for a number of bytes", text);
  return static_cast<std::int64_t>(bytes);
}

double parse_bandwidth(std::string_view text) {
  return parse_quantity(text, kBandwidth, "a bandwidth", "25GB/s");
}

double parse_seconds(std::string_view text) {
  return parse_quantity(text, kSeconds, "a time", "5us");
}

double parse_flops(std::string_view text) {
  return parse_quantity(text, kFlops, "a compute speed", "312TFLOP/s");
}

std::string format_bytes(double bytes) {
  static constexpr std::array<std::string_view, 6> unit_names = {" B",   " KiB", " MiB",
                                                                 " GiB", " TiB", " PiB"};
  return format_quantity(bytes, 1024, unit_names);
}

std::string format_seconds(double seconds) {
  static constexpr std::array<std::string_view, 4> unit_names = {" ns", " us", " ms", " s"};
  if (seconds == 0 || !std::isfinite(seconds)) {
    return fmt::format("{:.0f} s", seconds);
  }
  return format_quantity(seconds * 1e9, 1e3, unit_names);
}

std::string format_bandwidth(double bytes_per_s) {
  static constexpr std::array<std::string_view, 5> unit_names = {" B/s", " kB/s", " MB/s", " GB/s",
                                                                 " TB/s"};
  return format_quantity(bytes_per_s, 1e3, unit_names);
}

std::string format_flops(double flops_per_s) {
  static constexpr std::array<std::string_view, 7> unit_names = {
      " FLOP/s", " kFLOP/s", " MFLOP/s", " GFLOP/s", " TFLOP/s", " PFLOP/s", " EFLOP/s"};
  return format_quantity(flops_per_s, 1e3, unit_names);
}

std::string format_count(double count) {
  static constexpr std::array<std::string_view, 5> unit_names = {"", "K", "M", "B", "T"};
  return format_quantity(count, 1e3, unit_names);
}

}  // namespace weft
