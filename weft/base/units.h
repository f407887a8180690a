#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// "12GiB", "300MB", "1.5 KiB" or a plain number of bytes. Throws Error{input} otherwise.
[[nodiscard]] std::int64_t parse_bytes(std::string_view text);
/// "25GB/s" (decimal or binary prefixes) or a plain number of bytes a second.
[[nodiscard]] double parse_bandwidth(std::string_view text);
/// "5us", "10ms", "1.5s" or a plain number of seconds.
[[nodiscard]] double parse_seconds(std::string_view text);
/// "312TFLOP/s" or "312e12".
[[nodiscard]] double parse_flops(std::string_view text);

/// Three significant digits and a unit that suits: "12.0 GiB", "3.21 ms", "25.0 GB/s", "312
/// TFLOP/s".
[[nodiscard]] std::string format_bytes(double bytes);
[[nodiscard]] std::string format_seconds(double seconds);
[[nodiscard]] std::string format_bandwidth(double bytes_per_s);
[[nodiscard]] std::string format_flops(double flops_per_s);
/// "17.0M", "175B": parameters, tokens.
[[nodiscard]] std::string format_count(double count);

}  // namespace weft
