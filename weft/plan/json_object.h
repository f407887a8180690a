#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Whole numbers that every JSON tool keeps exactly.
inline constexpr std::int64_t kLargestInteger = std::int64_t{1} << 53U;

/// A JSON object whose members are asked for one by one. Mistakes are collected, not thrown, so
/// that a person who edits a plan sees all of them at once. The readers leave `out` alone if the
/// member is missing or wrong. Members that nobody asked for are unknown.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& json, std::string where, std::vector<std::string>& mistakes);

  /// Null if there is no such member.
  [[nodiscard]] const nlohmann::json* find(const std::string& key);
  /// As `find`, but it is a mistake if there is none.
  [[nodiscard]] const nlohmann::json* need(const std::string& key);
  /// The elements of a list; empty if there is none.
  [[nodiscard]] std::vector<const nlohmann::json*> list(const std::string& key);

  void read(const std::string& key, std::int64_t& out, std::int64_t least,
            std::int64_t most = kLargestInteger);
  void read(const std::string& key, int& out, std::int64_t least, std::int64_t most);
  void read(const std::string& key, std::uint64_t& out);
  void read(const std::string& key, double& out);  // finite and not negative
  void read(const std::string& key, std::string& out);
  void read(const std::string& key, bool& out);

  /// "plan.json.batch"
  [[nodiscard]] std::string path(const std::string& key) const;
  /// Says that a member, or an entry of it, should be what is wanted.
  void wrong(const std::string& key, const nlohmann::json& value, std::string_view wanted) const;
  void add_mistake(std::string text) const;
  [[nodiscard]] std::vector<std::string>& mistakes() const { return mistakes_; }

  /// Reports members that nobody asked for.
  void finish() const;

 private:
  const nlohmann::json& json_;
  std::string where_;
  std::vector<std::string>& mistakes_;
  std::set<std::string> asked_ = {};
};

/// Whether it is a whole number from `least` to `most`.
[[nodiscard]] bool is_integer_in(const nlohmann::json& value, std::int64_t least,
                                 std::int64_t most);

}  // namespace weft
