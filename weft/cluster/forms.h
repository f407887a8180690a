#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/cluster/catalogue.h"
#include "weft/cluster/cluster.h"

// The written forms of a cluster. Only the files of this module and their tests include this.

namespace weft {

/// More devices than this are refused: no machine has them, and a typing error may ask for them.
inline constexpr int kMaxDevices = 100000;

/// `4x8xA100-80GB+1x4xV100-16GB`, `8xA100-80GB` (one host), `A100-80GB` (one device). Throws
/// Error{input}.
[[nodiscard]] Cluster parse_shorthand(const std::string& text);
/// The shorthand that gives this very cluster, if there is one.
[[nodiscard]] std::optional<std::string> shorthand_of(const Cluster& cluster);
/// What to say of a device that is not in the catalogue: near misses and all names.
[[nodiscard]] std::string unknown_device(std::string_view name);

/// The form that people write. `where` is the file's name.
[[nodiscard]] Cluster read_cluster_file(const nlohmann::json& json, const std::string& where);

struct Speed {
  double bandwidth = 0;
  double latency_s = 0;
  Origin origin = Origin::spec;
  Curve table = {};
};

/// Of a device to its host's switch, to its host's memory, into the network.
[[nodiscard]] Speed device_speed(const CatalogueEntry& entry);
[[nodiscard]] Speed host_speed(const CatalogueEntry& entry);
[[nodiscard]] Speed network_speed(const CatalogueEntry& entry);
/// Two links, one each way.
void add_both_ways(Cluster& cluster, int a, int b, const Speed& speed);

enum class Unit { bytes, bandwidth, seconds, flops };
enum class Least { zero, above_zero };

/// Reads JSON of the user and gathers all that is wrong with it, each with its place, so that one
/// run shows all mistakes. What cannot be read comes back as 0 or empty.
class Mistakes {
 public:
  explicit Mistakes(std::string where) : where_(std::move(where)) {}

  void add(const std::string& place, const std::string& what);
  [[nodiscard]] bool none() const { return found_.empty(); }
  /// Throws Error{input} with all of them, if there are any.
  void raise() const;

  /// True if `json` is an object that has all of `needed` and nothing but `needed` and `optional`.
  bool keys(const nlohmann::json& json, const std::string& place,
            const std::vector<std::string_view>& needed,
            const std::vector<std::string_view>& optional);
  [[nodiscard]] std::string text(const nlohmann::json& json, const std::string& place);
  /// From `least` to `most`.
  [[nodiscard]] int count(const nlohmann::json& json, const std::string& place, int least,
                          int most);
  /// A number, or a text with a unit.
  [[nodiscard]] double quantity(const nlohmann::json& json, const std::string& place, Unit unit,
                                Least least);
  /// true, false or "cpu-time".
  [[nodiscard]] Emulation emulation(const nlohmann::json& json, const std::string& place);

 private:
  std::string where_;
  std::vector<std::string> found_;
};

}  // namespace weft
