// Against all rows of meshes.

#include "weft/search/mesh_cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "weft/base/random.h"

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using Row = std::vector<const MeshKind*>;

// Calls a function with every row of meshes that has one of the most devices.
void for_all_rows(int devices, const std::vector<MeshKind>& kinds, Row& row,
                  const std::function<void(const Row&)>& function) {
  if (std::ranges::any_of(
          row, [&](const MeshKind* mesh) { return mesh->devices == kinds.back().devices; })) {
    function(row);
  }
  for (const MeshKind& kind : kinds) {
    if (kind.devices <= devices) {
      row.push_back(&kind);
      for_all_rows(devices - kind.devices, kinds, row, function);
      row.pop_back();
    }
  }
}

// The most whole layers of a row with the other layer on one of its meshes.
double layers_of(const Row& row) {
  double most = -kNever;
  for (std::size_t with = 0; with < row.size(); ++with) {
    double sum = 0;
    for (std::size_t p = 0; p < row.size(); ++p) {
      const std::size_t place = std::min(p, row[p]->layers.size() - 1);
      const double own = p == with ? row[p]->beside_other[place] : row[p]->layers[place];
      sum += own < 0 ? -kNever : own;
    }
    most = std::max(most, sum);
  }
  return most;
}

TEST(MeshCover, CoversAsMuchAsTheBestRow) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomStream random{.seed = seed};
    std::uint64_t drawn = 0;
    const auto draw = [&](double low, double high) {
      return low + (high - low) * random.uniform(drawn++);
    };
    const int devices = 2 + static_cast<int>(draw(0, 5));
    std::vector<MeshKind> kinds;
    const std::size_t places = draw(0, 1) < 0.5 ? 1 : 4;
    for (int n = 1; n < devices; ++n) {
      while (n == 1 ? kinds.empty() : draw(0, 1) < 0.5) {
        MeshKind kind{.devices = n, .share = draw(1, 6) * n, .path_s = draw(0.1, 0.5) / n};
        const double head = draw(0, 0.5);
        const double other = draw(0, 3);
        for (std::size_t place = 0; place <= places; ++place) {
          const double share = kind.share - static_cast<double>(place) * head;
          kind.layers.push_back(std::floor(std::max(share, 0.0)));
          kind.beside_other.push_back(std::floor(share - other));
        }
        kinds.push_back(std::move(kind));
      }
    }
    const double u = draw(0, 3);
    double shares = -kNever;
    double layers = -kNever;
    double on_path = -kNever;
    Row row;
    for_all_rows(devices, kinds, row, [&](const Row& meshes) {
      double own_shares = 0;
      double own_on_path = 0;
      for (const MeshKind* mesh : meshes) {
        own_shares += mesh->share;
        own_on_path += mesh->layers[0] * std::max(1 - u * mesh->path_s, 0.0);
      }
      shares = std::max(shares, own_shares);
      layers = std::max(layers, layers_of(meshes));
      on_path = std::max(on_path, own_on_path);
    });
    SCOPED_TRACE(seed);
    MeshCover cover(devices, kinds);
    EXPECT_NEAR(cover.most_shares(), shares, 1e-9);
    EXPECT_NEAR(cover.most_on_path(u), on_path, 1e-9);
    EXPECT_EQ(cover.most_layers(), layers);
  }
}

}  // namespace
}  // namespace weft
