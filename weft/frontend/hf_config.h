#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A Hugging Face config.json that keeps account of the keys that were asked for. To ignore a key
/// is to claim that it changes nothing, so what nobody asked for, and is not known to mean nothing
/// to training, is refused at the end: all of it at once.
class HfConfig {
 public:
  /// Throws Error{input} unless it is an object.
  HfConfig(const nlohmann::json& config, std::string where);

  // Several spellings of one key must agree. Without a default the key must be there; null counts
  // as absent. Throw Error{input}.
  std::int64_t size(const std::vector<std::string>& spellings,
                    std::optional<std::int64_t> otherwise = {});
  double number(const std::string& key, std::optional<double> otherwise = {});
  /// A number from 0 to 1.
  double share(const std::string& key, double otherwise);
  /// `size` times a share, cut to a whole number. Throws Error{input} for sizes that no model has.
  [[nodiscard]] std::int64_t part_of(std::int64_t size, double share) const;
  bool flag(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  [[nodiscard]] bool has(const std::string& key) const;
  /// A member that the caller reads by itself.
  const nlohmann::json& member(const std::string& key);

  /// The key may be absent or have one of these values, the only ones whose mathematics we build.
  void only(const std::string& key, std::initializer_list<nlohmann::json> allowed);
  /// Keys that mean nothing here.
  void ignore(std::initializer_list<std::string_view> keys);
  /// Model classes that we train; absent is fine.
  void architectures(std::initializer_list<std::string_view> allowed);
  /// gelu | gelu_tanh | relu | silu | … from Hugging Face's names.
  std::string activation(const std::string& key, const std::string& otherwise);

  /// Labels there are: num_labels, else the entries of id2label, else 2 as in transformers.
  std::int64_t classes();
  /// A list of sizes as "2/2/6/2".
  std::string sizes(const std::string& key, const std::string& otherwise);

  [[nodiscard]] const std::string& where() const { return where_; }
  void finish() const;

 private:
  const nlohmann::json& config_;
  std::string where_;
  std::set<std::string, std::less<>> asked_;
};

/// "family:settings" of a config.json. Throws Error{input} that names model types and keys which
/// are not understood.
[[nodiscard]] std::string describe_hf_config(const nlohmann::json& config,
                                             const std::string& where);

}  // namespace weft
