#pragma once

#include <set>
#include <span>
#include <vector>

namespace weft {

/// How much meshes of a kind can have of the class of layers that takes most.
struct MeshKind {
  int devices = 1;
  double share = 0;  // in layers, not always whole ones
  /// Whole layers, by the place of the mesh in the row; the last number is that of later places.
  std::vector<double> layers = {};
  /// Same, if it has the largest layer of the other classes too; less than 0: it cannot.
  std::vector<double> beside_other = {};
  /// A micro-batch's way through a layer of the class, there and back; 0: unknown.
  double path_s = 0;
};

/// How much of a model meshes that share some devices can have: the best of all rows of meshes that
/// have one of the most devices among them. The mathematics stands in mesh_cover.cpp.
class MeshCover {
 public:
  /// `kinds` by devices, ascending; they must outlive it.
  MeshCover(int devices, std::span<const MeshKind> kinds) : devices_(devices), kinds_(kinds) {}

  [[nodiscard]] double most_shares();
  /// Whole layers, if the largest other layer is on some mesh.
  [[nodiscard]] double most_layers();
  /// The sum over whole layers of 1 - u path_s, wherever the meshes are.
  [[nodiscard]] double most_on_path(double u);

  /// Kinds of all rows that were the best so far.
  std::set<int> used;

 private:
  template <typename Gain, typename OtherGain>
  double most(int places, const Gain& gain, const OtherGain* beside_other);

  int devices_;
  std::span<const MeshKind> kinds_;
};

}  // namespace weft
