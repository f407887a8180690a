#include "weft/search/mesh_cover.h"

#include <algorithm>
#include <limits>

// Meshes in a row: the best for j devices, p meshes, with or without one of the most devices, with
// or without the other layer, is the best for fewer devices and a mesh less, and a last mesh. What
// a mesh adds depends on its kind, on whether it has the other layer and, for the first few, on its
// place in the row.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Of the kinds with so many devices, at a place.
struct Best {
  int devices = 0;
  int kind = 0;
  double gain = -kNever;
};

template <typename Gain>
std::vector<Best> best_of(std::span<const MeshKind> kinds, int place, const Gain& gain) {
  std::vector<Best> best;
  for (int k = 0; k < std::ssize(kinds); ++k) {
    if (best.empty() || best.back().devices != kinds[k].devices) {
      best.push_back({.devices = kinds[k].devices});
    }
    if (const double own = gain(kinds[k], place); own > best.back().gain) {
      best.back() = {kinds[k].devices, k, own};
    }
  }
  return best;
}

}  // namespace

template <typename Gain, typename OtherGain>
double MeshCover::most(int places, const Gain& gain, const OtherGain* beside_other) {
  struct State {
    double all = -kNever;
    int last = 0;  // kind of the last mesh
    int before = -1;
  };
  // By what is among them (1: a mesh of the most devices, 2: the other layer), the place of the
  // next mesh, and devices.
  const int row = devices_ + 1;
  const int part = (places + 1) * row;
  std::vector<State> states(4 * part);
  const int begin = beside_other == nullptr ? 2 * part : 0;
  states[begin].all = 0;
  std::vector<std::vector<Best>> best_at[2];  // without and with the other layer
  for (int place = 0; place <= places; ++place) {
    best_at[0].push_back(best_of(kinds_, place, gain));
    if (beside_other != nullptr) {
      best_at[1].push_back(best_of(kinds_, place, *beside_other));
    }
  }
  for (int i = begin; i < 4 * part; ++i) {
    const int devices = i % row;
    const int place = i % part / row;
    const int among = i / part;
    for (int with = 0; with <= (among < 2 ? 1 : 0) && states[i].all > -kNever; ++with) {
      for (const Best& mesh : best_at[with][place]) {
        if (devices + mesh.devices > devices_) {
          break;
        }
        const int has = among | (mesh.devices == kinds_.back().devices ? 1 : 0) | 2 * with;
        const int to = has * part + std::min(place + 1, places) * row + devices + mesh.devices;
        const double all = states[i].all + mesh.gain;
        if (all > states[to].all) {
          states[to] = {all, mesh.kind, i};
        }
      }
    }
  }
  const auto best = std::max_element(states.begin() + 3 * part, states.end(),
                                     [](const State& a, const State& b) { return a.all < b.all; });
  for (auto i = static_cast<int>(best - states.begin()); states[i].before >= 0;
       i = states[i].before) {
    used.insert(states[i].last);
  }
  return best->all;
}

double MeshCover::most_shares() {
  const auto gain = [](const MeshKind& kind, int) { return kind.share; };
  return most(1, gain, static_cast<const decltype(gain)*>(nullptr));
}

double MeshCover::most_layers() {
  const auto gain = [](const MeshKind& kind, int place) { return kind.layers[place]; };
  const auto beside_other = [](const MeshKind& kind, int place) {
    return kind.beside_other[place] < 0 ? -kNever : kind.beside_other[place];
  };
  return most(static_cast<int>(kinds_[0].layers.size()) - 1, gain, &beside_other);
}

double MeshCover::most_on_path(double u) {
  const auto gain = [&](const MeshKind& kind, int) {
    return kind.layers[0] * std::max(1 - u * kind.path_s, 0.0);
  };
  return most(1, gain, static_cast<const decltype(gain)*>(nullptr));
}

}  // namespace weft
