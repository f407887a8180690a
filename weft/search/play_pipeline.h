#pragma once

#include <vector>

#include "weft/plan/plan.h"

namespace weft {

/// Seconds of a micro-batch in the stages of a pipeline, of which a mesh may have several.
struct PlayedStages {
  std::vector<double> forward_s;  // by stage
  std::vector<double> backward_s;
  std::vector<double> weight_s;  // where gradients of weights are apart
  std::vector<double> send_s;    // from stage s to s + 1 and back: one fewer than stages
};

/// The orders of all meshes as one row of tasks, each behind what it needs: found once, it is
/// played for any seconds of the stages.
class PlayedOrder {
 public:
  PlayedOrder() = default;
  /// `mesh_of`: by stage; stages of a mesh are its chunks, in this order. `orders`: by mesh.
  PlayedOrder(const std::vector<int>& mesh_of, const std::vector<std::vector<OrderEntry>>& orders);

  /// When each mesh has done its order, the first at second 0. A link between two meshes carries
  /// one micro-batch after the other, each way. Empty if meshes would wait for each other.
  [[nodiscard]] std::vector<double> play(const PlayedStages& stages) const;

 private:
  enum class Kind : std::uint8_t { forward, backward, weight };
  struct Task {
    Kind kind = Kind::forward;
    int stage = 0;
    int mesh = 0;
    int input = -1;   // into what is there; -1: nothing is needed
    int output = -1;  // same; -1: nobody needs it
    int link = -1;    // that carries the output; -1: it stays on the mesh
  };
  class Finder;

  std::vector<Task> tasks_;
  int meshes_ = 0;
  int things_ = 0;  // inputs and outputs
  bool ends_ = true;
};

}  // namespace weft
