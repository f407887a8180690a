#pragma once

#include <map>
#include <memory>

#include "weft/search/configurations.h"
#include "weft/search/stage_table.h"

namespace weft {

/// The tables of a search, each made when it is first asked for. The arguments must outlive it.
class MeshTables {
 public:
  MeshTables(const Task& task, const PlanLimits& limits, BlockModel& model)
      : task_(task), limits_(limits), model_(model) {}

  /// `following`: all gradients follow, whatever may be better.
  StageTable& at(const MeshShape& shape, int micro_batches, bool following = false);
  [[nodiscard]] int size() const { return static_cast<int>(tables_.size()); }

 private:
  struct Key {
    MeshShape shape;
    int micro_batches = 1;
    bool following = false;
    auto operator<=>(const Key&) const = default;
  };

  const Task& task_;
  const PlanLimits& limits_;
  BlockModel& model_;
  std::map<Key, std::unique_ptr<StageTable>> tables_;
};

}  // namespace weft
