// Cluster files and, where the bytes begin with no '{', shorthands.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/cluster/cluster.h"

namespace weft::fuzz {

void cluster(std::string_view bytes) {
  // A text within JSON is a shorthand and never a path, so no file is opened here.
  const bool is_file = bytes.find_first_of("{[\"") < 8;
  const nlohmann::json json =
      is_file ? parse_json(bytes, "cluster.json") : nlohmann::json(std::string(bytes));
  const Cluster read = cluster_from_json(json, "cluster.json");
  WEFT_CHECK(violations(read).empty());
  if (read.devices.size() <= 64) {
    WEFT_CHECK(cluster_from_json(cluster_to_json(read), "written") == read);
    static_cast<void>(route(read, 0, static_cast<DeviceId>(read.devices.size()) - 1));
  }
}

}  // namespace weft::fuzz
