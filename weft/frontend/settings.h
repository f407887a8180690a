#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A key of a model family with its default; an empty default is derived from other keys: the
/// family's reader sets it.
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

  /// Gives a value to a key that has none. Later getters and `description` see it.
  void otherwise(const std::string& key, const std::string& value);
  void otherwise(const std::string& key, std::int64_t value);
  void otherwise(const std::string& key, double value);
  /// Gives it whatever it has.
  void set(const std::string& key, std::int64_t value);
  [[nodiscard]] bool given(const std::string& key) const { return !values_.at(key).empty(); }
  /// "llama:layers=2,hidden=64,…": every key in the order of the family. Numbers in their shortest
  /// form, so that two ways to write a model are one description.
  [[nodiscard]] std::string description() const;

  [[nodiscard]] std::int64_t size(const std::string& key, std::int64_t largest) const;
  /// At least 0 and below 1.
  [[nodiscard]] double share(const std::string& key) const;
  /// "2/2/6/2": at least one, at most 64.
  [[nodiscard]] std::vector<std::int64_t> sizes(const std::string& key, std::int64_t largest) const;
  /// 0 or 1.
  [[nodiscard]] bool flag(const std::string& key) const { return choice(key, {"0", "1"}) == "1"; }
  /// A whole number from 0 on.
  [[nodiscard]] std::int64_t count(const std::string& key, std::int64_t largest) const;
  /// At least 0.
  [[nodiscard]] double positive(const std::string& key) const;
  [[nodiscard]] const std::string& text(const std::string& key) const { return values_.at(key); }
  /// Above 0 and below 1.
  [[nodiscard]] double small_number(const std::string& key) const;
  [[nodiscard]] std::string choice(const std::string& key,
                                   const std::vector<std::string>& allowed) const;

 private:
  [[nodiscard]] double number(const std::string& key) const;

  std::string family_;
  std::vector<std::string> order_;
  std::map<std::string, std::string> values_;
};

}  // namespace weft
