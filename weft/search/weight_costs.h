#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "weft/search/block_costs.h"

namespace weft {

/// What the weights of a node cost, by their modes: memory, reduction of gradients, gathers,
/// update. The mathematics stands in weight_costs.cpp. The arguments must outlive it.
class WeightCosts {
 public:
  WeightCosts(const BlockChain& chain, int block_class, const BlockPlace& place,
              const Graph& training, const OpTable& ops, const CostModel& cost,
              MeshCollectives& collectives);

  /// Adds the costs of a weight, if the node runs like this and its gradient is made like this, to
  /// those by kind.
  void add(const WeightTerm& term, const NodeOption& option, const Placements& made,
           const std::vector<WeightMode>& modes, std::array<double, kCostKinds>& costs);

 private:
  [[nodiscard]] TensorType local(const TensorType& type, const Placements& placements) const {
    return local_type(type, placements, place_.mesh, Coordinates(place_.mesh.axes.size(), 0));
  }
  struct Bytes {  // that a device has if no mode splits them
    double parameter = 0;
    double gradient = 0;  // sum over all micro-batches
    double term = 0;      // of one micro-batch
    double states = 0;
  };
  struct Known {  // of a parameter that lies like this
    Placements used;
    Bytes bytes;
    std::vector<std::pair<double, double>> update_s;  // by parts of a state
  };
  Known& known(ValueId parameter, const Placements& used);
  void reduce(int axis, WeightMode mode, Placement::Kind made, const Bytes& bytes,
              const std::array<double, 4>& parts, std::array<double, kCostKinds>& costs);
  double update_seconds(const ParameterState& state, const TensorType& parameter, Known& known,
                        double parts) const;
  [[nodiscard]] double update_seconds(const Node& node, const TensorType& parameter,
                                      const Placements& used, double parts) const;

  const BlockChain& chain_;
  const BlockPlace& place_;
  const Graph& graph_;
  const OpTable& ops_;
  const CostModel& cost_;
  MeshCollectives& collectives_;
  DeviceId device_;
  double issue_s_ = 0;
  double update_issue_s_ = 0;
  double layer_bucket_bytes_ = 0;  // of collectives that go together in a layer
  std::map<ValueId, std::vector<Known>> known_;
};

}  // namespace weft
