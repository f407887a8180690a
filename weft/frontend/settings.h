#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A key of a model family with its default; an empty default is derived from other keys.
struct Key {
  std::string_view name;
  std::string_view otherwise;
  std::string_view help;
};

/// The "key=value" pairs of a model family. Getters throw Error{input} that names family, key and
/// what is allowed.
class Settings {
 public:
  /// `text` is "layers=2,hidden=64". Keys that are not in `keys` or stand twice are refused.
  Settings(std::string family, std::string_view text, const std::vector<Key>& keys);

  [[nodiscard]] std::int64_t size(const std::string& key, std::int64_t largest) const;
  /// Another key's value if this one is not given.
  [[nodiscard]] std::int64_t size_or(const std::string& key, std::int64_t largest,
                                     std::int64_t otherwise) const;
  /// At least 0 and below 1.
  [[nodiscard]] double share(const std::string& key) const;
  [[nodiscard]] double share_or(const std::string& key, double otherwise) const;
  /// Above 0 and below 1.
  [[nodiscard]] double small_number(const std::string& key) const;
  [[nodiscard]] std::string choice(const std::string& key,
                                   const std::vector<std::string>& allowed) const;

 private:
  [[nodiscard]] const std::string& text(const std::string& key) const { return values_.at(key); }
  [[nodiscard]] double number(const std::string& key) const;

  std::string family_;
  std::map<std::string, std::string> values_;
};

}  // namespace weft
