// With m(w, l, j) the least share of its budget that the fullest device uses, if the layers from l
// on have w stages on the devices from j on:
//
//     m(w, l, j) = min over e, n of max( memory(l, e, n) / budget,  m(w - 1, e, j + n) )
//
// under 1F1B, which keeps the fewest micro-batches: w of them on a stage with w - 1 behind it.

#include "weft/search/leanest_chain.h"

#include <algorithm>

namespace weft {
namespace {

struct Choice {
  double share = std::numeric_limits<double>::infinity();
  int end = 0;
  int count = 0;
};

class Leanest {
 public:
  Leanest(const ChainGrid& grid, MicroBatches parts)
      : grid_(grid),
        parts_(parts),
        most_stages_(std::min(grid.parts(), grid.places())),
        table_(index(most_stages_ + 1, 0, 0)) {
    for (int stages = 1; stages <= most_stages_; ++stages) {
      for (int cut = 0; cut + stages <= grid_.parts(); ++cut) {
        for (int place = 0; place + stages <= grid_.places(); ++place) {
          choose(stages, cut, place);
        }
      }
    }
  }

  [[nodiscard]] ChainPlan plan() const {
    int stages = 1;
    for (int more = 2; more <= most_stages_; ++more) {
      if (table_[index(more, 0, 0)].share < table_[index(stages, 0, 0)].share) {
        stages = more;
      }
    }
    ChainPlan plan{.micro_batches = parts_.count};
    for (int cut = 0, place = 0; stages > 0; --stages) {
      const Choice& choice = table_[index(stages, cut, place)];
      plan.stages.push_back(leaner(grid_.stage(cut, choice.end, place, choice.count), stages));
      cut = choice.end;
      place += choice.count;
    }
    return plan;
  }

 private:
  [[nodiscard]] std::size_t index(int stages, int cut, int place) const {
    return (static_cast<std::size_t>(stages) * (grid_.parts() + 1) + cut) * (grid_.places() + 1) +
           place;
  }

  [[nodiscard]] double memory(const ChainStage& stage, int stages) const {
    return grid_.cost().memory_bytes(
        stage, parts_.large(), in_flight(ChainSchedule::one_f_one_b, parts_.count, stages - 1));
  }

  [[nodiscard]] ChainStage leaner(ChainStage stage, int stages) const {
    const double kept = memory(stage, stages);
    stage.recompute = true;
    stage.recompute = memory(stage, stages) < kept;
    return stage;
  }

  void choose(int stages, int cut, int place) {
    Choice& best = table_[index(stages, cut, place)];
    const int last_end = grid_.parts() - (stages - 1);
    const auto most =
        std::min<std::int64_t>(grid_.places() - place - (stages - 1),
                               std::max<std::int64_t>(1, parts_.large() / grid_.unit()));
    for (int end = stages == 1 ? last_end : cut + 1; end <= last_end; ++end) {
      for (int count = 1; count <= most; ++count) {
        const ChainStage stage = leaner(grid_.stage(cut, end, place, count), stages);
        double share = memory(stage, stages) / grid_.cost().budget_bytes(stage);
        if (stages > 1) {
          share = std::max(share, table_[index(stages - 1, end, place + count)].share);
        }
        if (share < best.share) {
          best = {.share = share, .end = end, .count = count};
        }
      }
    }
  }

  const ChainGrid& grid_;
  MicroBatches parts_;
  int most_stages_ = 1;
  std::vector<Choice> table_;
};

}  // namespace

ChainPlan leanest_chain(const ChainGrid& grid, MicroBatches parts) {
  return Leanest(grid, parts).plan();
}

}  // namespace weft
