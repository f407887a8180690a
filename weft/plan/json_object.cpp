#include "weft/plan/json_object.h"

#include <fmt/core.h>

#include <cmath>

namespace weft {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 40;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

}  // namespace

bool is_integer_in(const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) {
    return false;
  }
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(kLargestInteger)) {
    return false;
  }
  const auto number = value.get<std::int64_t>();
  return number >= least && number <= most;
}

JsonObject::JsonObject(const Json& json, std::string where, std::vector<std::string>& mistakes)
    : json_(json), where_(std::move(where)), mistakes_(mistakes) {
  if (!json.is_object()) {
    add_mistake(fmt::format("{} must be an object, not {}", where_, shown(json)));
  }
}

const Json* JsonObject::find(const std::string& key) {
  asked_.insert(key);
  if (!json_.is_object()) {
    return nullptr;
  }
  const auto it = json_.find(key);
  return it == json_.end() ? nullptr : &*it;
}

const Json* JsonObject::need(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr && json_.is_object()) {
    add_mistake(fmt::format("{} is missing", path(key)));
  }
  return value;
}

std::vector<const Json*> JsonObject::list(const std::string& key) {
  const Json* value = find(key);
  std::vector<const Json*> result;
  if (value == nullptr) {
    return result;
  }
  if (!value->is_array()) {
    wrong(key, *value, "a list");
    return result;
  }
  for (const Json& entry : *value) {
    result.push_back(&entry);
  }
  return result;
}

void JsonObject::read(const std::string& key, std::int64_t& out, std::int64_t least,
                      std::int64_t most) {
  const Json* value = find(key);
  if (value == nullptr) {
    return;
  }
  if (!is_integer_in(*value, least, most)) {
    wrong(key, *value, fmt::format("a whole number from {} to {}", least, most));
    return;
  }
  out = value->get<std::int64_t>();
}

void JsonObject::read(const std::string& key, int& out, std::int64_t least, std::int64_t most) {
  std::int64_t wide = out;
  read(key, wide, least, most);
  out = static_cast<int>(wide);
}

void JsonObject::read(const std::string& key, std::uint64_t& out) {
  const Json* value = find(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_number_unsigned() && !is_integer_in(*value, 0, kLargestInteger)) {
    wrong(key, *value, "a whole number from 0 to 2^64 - 1");
    return;
  }
  out = value->get<std::uint64_t>();
}

void JsonObject::read(const std::string& key, double& out) {
  const Json* value = find(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() < 0) {
    wrong(key, *value, "a number of at least 0");
    return;
  }
  out = value->get<double>();
}

void JsonObject::read(const std::string& key, std::string& out) {
  const Json* value = find(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_string()) {
    wrong(key, *value, "a string");
    return;
  }
  out = value->get<std::string>();
}

void JsonObject::read(const std::string& key, bool& out) {
  const Json* value = find(key);
  if (value == nullptr) {
    return;
  }
  if (!value->is_boolean()) {
    wrong(key, *value, "true or false");
    return;
  }
  out = value->get<bool>();
}

std::string JsonObject::path(const std::string& key) const {
  return where_ + "." + key;
}

void JsonObject::wrong(const std::string& key, const Json& value, std::string_view wanted) const {
  add_mistake(fmt::format("{} must be {}, not {}", path(key), wanted, shown(value)));
}

void JsonObject::add_mistake(std::string text) const {
  mistakes_.push_back(std::move(text));
}

void JsonObject::finish() const {
  if (!json_.is_object()) {
    return;
  }
  for (const auto& [key, value] : json_.items()) {
    if (!asked_.contains(key)) {
      add_mistake(fmt::format("{} is unknown; remove it", path(key)));
    }
  }
}

}  // namespace weft
