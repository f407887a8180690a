#include "weft/frontend/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "weft/base/error.h"

namespace weft {

namespace {

std::string names_of(const std::vector<Key>& keys) {
  std::string names;
  for (const Key& key : keys) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", key.name);
  }
  return names;
}

template <typename T>
bool parse_all(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  return code == std::errc() && stop == end;
}

}  // namespace

Settings::Settings(std::string family, std::string_view text, const std::vector<Key>& keys)
    : family_(std::move(family)) {
  for (const Key& key : keys) {
    values_[std::string(key.name)] = key.otherwise;
    order_.emplace_back(key.name);
  }
  std::set<std::string> given;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item(text.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t equal = item.find('=');
    require(equal != std::string::npos && equal > 0 && equal + 1 < item.size(),
            "model {}: '{}' is not KEY=VALUE", family_, item);
    const std::string key = item.substr(0, equal);
    require(values_.contains(key), "model {}: there is no key '{}'; the keys are {}", family_, key,
            names_of(keys));
    require(given.insert(key).second, "model {}: key '{}' is given twice", family_, key);
    values_[key] = item.substr(equal + 1);
  }
}

std::int64_t Settings::size(const std::string& key, std::int64_t largest) const {
  std::int64_t value = 0;
  require(parse_all(text(key), value) && value >= 1 && value <= largest,
          "model {}: {}={} must be a whole number from 1 to {}", family_, key, text(key), largest);
  return value;
}

std::int64_t Settings::count(const std::string& key, std::int64_t largest) const {
  std::int64_t value = 0;
  require(parse_all(text(key), value) && value >= 0 && value <= largest,
          "model {}: {}={} must be a whole number from 0 to {}", family_, key, text(key), largest);
  return value;
}

std::vector<std::int64_t> Settings::sizes(const std::string& key, std::int64_t largest) const {
  std::vector<std::int64_t> list;
  const std::string& all = text(key);
  for (std::size_t begin = 0; begin <= all.size() && list.size() <= 64;) {
    const std::size_t end = std::min(all.find('/', begin), all.size());
    std::int64_t value = 0;
    require(parse_all(all.substr(begin, end - begin), value) && value >= 1 && value <= largest,
            "model {}: {}={} must be whole numbers from 1 to {} with / between them", family_, key,
            all, largest);
    list.push_back(value);
    begin = end + 1;
  }
  require(list.size() <= 64, "model {}: {} has more than 64 entries", family_, key);
  return list;
}

void Settings::otherwise(const std::string& key, const std::string& value) {
  std::string& held = values_.at(key);
  held = held.empty() ? value : held;
}

void Settings::otherwise(const std::string& key, std::int64_t value) {
  otherwise(key, fmt::format("{}", value));
}

void Settings::otherwise(const std::string& key, double value) {
  otherwise(key, fmt::format("{}", value));
}

void Settings::set(const std::string& key, std::int64_t value) {
  values_.at(key) = fmt::format("{}", value);
}

std::string Settings::description() const {
  std::string all = family_;
  for (const std::string& key : order_) {
    double number = 0;
    const std::string& held = text(key);
    const bool is_number = parse_all(held, number) && std::abs(number) < 1e15;
    all += fmt::format("{}{}={}", &key == &order_.front() ? ":" : ",", key,
                       is_number ? fmt::format("{}", number) : held);
  }
  return all;
}

double Settings::number(const std::string& key) const {
  double value = -1;
  return parse_all(text(key), value) ? value : -1;
}

double Settings::share(const std::string& key) const {
  const double value = number(key);
  require(value >= 0 && value < 1, "model {}: {}={} must be a number from 0 to below 1", family_,
          key, text(key));
  return value;
}

double Settings::positive(const std::string& key) const {
  const double value = number(key);
  require(value >= 0 && value < 1e12, "model {}: {}={} must be a number from 0 on", family_, key,
          text(key));
  return value;
}

double Settings::small_number(const std::string& key) const {
  const double value = number(key);
  require(value > 0 && value < 1, "model {}: {}={} must be a number above 0 and below 1", family_,
          key, text(key));
  return value;
}

std::string Settings::choice(const std::string& key,
                             const std::vector<std::string>& allowed) const {
  require(std::ranges::find(allowed, text(key)) != allowed.end(), "model {}: {}={} must be {}",
          family_, key, text(key), fmt::join(allowed, " or "));
  return text(key);
}

}  // namespace weft
