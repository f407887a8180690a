#pragma once

#include <string>
#include <vector>

#include "weft/plan/plan.h"

namespace weft {

/// The order of micro-batches on each mesh under any schedule but `listed`. `mesh_of`: by stage.
[[nodiscard]] std::vector<std::vector<OrderEntry>> schedule_orders(const std::string& schedule,
                                                                   const std::vector<int>& mesh_of,
                                                                   int micro_batches);

}  // namespace weft
