#pragma once

#include <vector>

#include "weft/search/mesh_tables.h"
#include "weft/search/plan_draft.h"
#include "weft/search/search_notes.h"

namespace weft {

/// Devices in runs of so many, as stages take them.
struct DeviceUnits {
  int devices = 1;         // of a unit
  std::vector<int> hosts;  // units of each host, or of each row of hosts that is one unit
  std::vector<int> sizes;  // units that a stage may have, ascending
};
/// At most 32 units, if hosts are alike. Stages have up to 12 units, or 2^k or 3 2^k, or all: part
/// of a host or whole hosts. No sizes: hosts are unlike and have too many devices.
[[nodiscard]] DeviceUnits device_units(const Cluster& cluster);

/// What the search for unequal meshes needs beside the tables.
struct UnequalSearch {
  const Task& task;
  const PlanLimits& limits;
  const BlockModel& model;
  const Drafting& drafting;
  double budget_bytes = 0;  // of a device
};

/// Drafts of pipelines whose meshes have different shapes, for the numbers of micro-batches of the
/// best equal ones; `equal` are these, the best first. The mathematics stands in
/// unequal_meshes.cpp.
[[nodiscard]] std::vector<Draft> unequal_drafts(const UnequalSearch& search, MeshTables& tables,
                                                const std::vector<Draft>& equal,
                                                const SearchNotes& note);

}  // namespace weft
