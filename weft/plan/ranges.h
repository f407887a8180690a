#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/mesh.h"

// Short forms of long lists in a plan file.
namespace weft {

/// The most entries that a list of devices, layers or micro-batches may have.
inline constexpr std::int64_t kLongestList = 1'000'000;

/// "0-7,16,18-19": in this order.
[[nodiscard]] std::string format_devices(const std::vector<DeviceId>& devices);
/// Throws Error{input}.
[[nodiscard]] std::vector<DeviceId> parse_devices(std::string_view text);

/// Runs of names that differ in the number at their end become one entry: "h.0..h.11".
[[nodiscard]] std::vector<std::string> shorten_names(const std::vector<std::string>& names);
/// Appends the names that an entry stands for. Throws Error{input}.
void append_names(std::string_view entry, std::vector<std::string>& names);

}  // namespace weft
