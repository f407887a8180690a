// Which device sends what to whom when a tensor moves from one mesh to another.
//
// Devices of the source that hold the same region are replicas. Regions of different replica sets
// do not overlap and together cover the tensor, so each set gives a receiver one piece: what both
// have. Where k replicas serve m receivers, receiver j (in order of position) takes replica j * k /
// m: neighbours keep their order, and no replica serves more than one receiver above another.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "weft/base/error.h"
#include "weft/sharding/reshard.h"

namespace weft {
namespace {

/// The regions of a mesh, in order of position.
std::vector<Region> regions(const Shape& shape, const Mesh& mesh, const Placements& placements) {
  std::vector<Region> result;
  for (std::size_t i = 0; i < mesh.devices.size(); ++i) {
    result.push_back(region(shape, placements, mesh, coordinates(mesh, static_cast<int>(i))));
  }
  return result;
}

struct RegionOrder {
  bool operator()(const Region& a, const Region& b) const {
    return std::lexicographical_compare(
        a.begin(), a.end(), b.begin(), b.end(), [](const Range& x, const Range& y) {
          return std::tie(x.begin, x.end) < std::tie(y.begin, y.end);
        });
  }
};

using Replicas = std::map<Region, std::vector<DeviceId>, RegionOrder>;

/// What both regions have; nothing if that is empty. (A scalar has no dims and is never empty.)
std::optional<Region> common(const Region& a, const Region& b) {
  Region result;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const Range range{std::max(a[d].begin, b[d].begin), std::min(a[d].end, b[d].end)};
    if (range.begin >= range.end) {
      return std::nullopt;
    }
    result.push_back(range);
  }
  return result;
}

struct Request {
  DeviceId to = 0;
  Region region = {};
};

/// All that receivers take from one set of replicas.
void serve(const std::vector<DeviceId>& replicas, const Mesh& to_mesh,
           const std::map<Region, std::vector<std::size_t>, RegionOrder>& wanted,
           const Region& source, std::vector<Piece>& pieces) {
  std::map<std::size_t, Request> requests;  // by position of the receiver
  std::vector<DeviceId> have = replicas;
  std::ranges::sort(have);
  for (const auto& [target, positions] : wanted) {
    const std::optional<Region> piece = common(source, target);
    if (!piece) {
      continue;
    }
    for (const std::size_t position : positions) {
      const DeviceId to = to_mesh.devices[position];
      if (std::ranges::binary_search(have, to)) {
        pieces.push_back({.from = to, .to = to, .region = *piece});
      } else {
        requests[position] = {.to = to, .region = *piece};
      }
    }
  }
  std::size_t served = 0;
  for (const auto& [position, request] : requests) {
    const std::size_t replica = served++ * replicas.size() / requests.size();
    pieces.push_back({.from = replicas[replica], .to = request.to, .region = request.region});
  }
}

}  // namespace

std::vector<Piece> transfer_pieces(const Shape& bound_shape, const Mesh& from_mesh,
                                   const Placements& from, const Mesh& to_mesh,
                                   const Placements& to) {
  WEFT_CHECK(!has_partial(from) && !has_partial(to));
  Replicas sources;
  const std::vector<Region> held = regions(bound_shape, from_mesh, from);
  for (std::size_t i = 0; i < held.size(); ++i) {
    sources[held[i]].push_back(from_mesh.devices[i]);
  }
  std::map<Region, std::vector<std::size_t>, RegionOrder> wanted;
  const std::vector<Region> needed = regions(bound_shape, to_mesh, to);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    wanted[needed[i]].push_back(i);
  }
  std::vector<Piece> pieces;
  for (const auto& [source, replicas] : sources) {
    serve(replicas, to_mesh, wanted, source, pieces);
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    if (std::tie(a.to, a.from) != std::tie(b.to, b.from)) {
      return std::tie(a.to, a.from) < std::tie(b.to, b.from);
    }
    return RegionOrder{}(a.region, b.region);
  });
  return pieces;
}

}  // namespace weft
