#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft {

/// Whole content of a file. Throws Error{environment} if it cannot be read.
[[nodiscard]] std::string read_file(const std::string& path);

/// Writes beside the file and renames, so that a reader never sees half of it.
void write_file(const std::string& path, std::string_view content);

/// Parses JSON of the user: errors are Error{input} and name `what` (a path), line and column. More
/// than 200 levels of nesting are an error.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& what);
[[nodiscard]] nlohmann::json read_json(const std::string& path);

/// Typed access with messages that say where: `json_int(j, "batch", "plan.json")`. Missing or
/// wrongly typed members are Error{input}; the `_or` forms take a default for missing ones and for
/// null. 1e6 and 3.0 are integers.
[[nodiscard]] const nlohmann::json& json_member(const nlohmann::json& object, std::string_view key,
                                                const std::string& where);
[[nodiscard]] std::int64_t json_int(const nlohmann::json& object, std::string_view key,
                                    const std::string& where);
[[nodiscard]] double json_number(const nlohmann::json& object, std::string_view key,
                                 const std::string& where);
[[nodiscard]] std::string json_string(const nlohmann::json& object, std::string_view key,
                                      const std::string& where);
[[nodiscard]] std::int64_t json_int_or(const nlohmann::json& object, std::string_view key,
                                       const std::string& where, std::int64_t otherwise);
[[nodiscard]] double json_number_or(const nlohmann::json& object, std::string_view key,
                                    const std::string& where, double otherwise);
[[nodiscard]] std::string json_string_or(const nlohmann::json& object, std::string_view key,
                                         const std::string& where, const std::string& otherwise);
[[nodiscard]] bool json_bool_or(const nlohmann::json& object, std::string_view key,
                                const std::string& where, bool otherwise);

}  // namespace weft
