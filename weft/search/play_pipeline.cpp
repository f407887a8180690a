// A task begins when its mesh has done what comes before it in the mesh's order and what it needs
// is there:
//
//     F(s, i) needs F(s-1, i), sent       B(s, i) needs B(s+1, i), sent; the last stage F(s, i)
//
// What a mesh sends to another goes in the order of its tasks. Meshes are run in turn, each as far
// as it gets: forwards go down the pipeline and backwards up, so the sweeps alternate.

#include "weft/search/play_pipeline.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kNotYet = -1;

class PipelinePlay {
 public:
  PipelinePlay(const PlayedStages& stages, const std::vector<std::vector<OrderEntry>>& orders)
      : s_(stages),
        orders_(orders),
        last_(static_cast<int>(stages.mesh_of.size()) - 1),
        stages_of_(orders.size()),
        next_(orders.size(), 0),
        free_at_(orders.size(), 0),
        links_(orders.size() * orders.size(), 0) {
    for (int s = 0; s <= last_; ++s) {
      stages_of_[s_.mesh_of[s]].push_back(s);
    }
    for (const OrderEntry& entry : orders[0]) {
      micro_batches_ = std::max(micro_batches_, entry.micro_batch + 1);
    }
    const std::size_t all = stages.mesh_of.size() * static_cast<std::size_t>(micro_batches_);
    forward_there_.assign(all, kNotYet);
    backward_there_.assign(all, kNotYet);
    for (int i = 0; i < micro_batches_; ++i) {
      forward_there_[i] = 0;
    }
  }

  std::vector<double> run() {
    const auto meshes = static_cast<int>(orders_.size());
    for (bool further = true; further;) {
      further = false;
      for (int p = 0; p < meshes; ++p) {
        further |= advance(p);
      }
      for (int p = meshes; p-- > 0;) {
        further |= advance(p);
      }
    }
    for (int p = 0; p < meshes; ++p) {
      if (next_[p] < orders_[p].size()) {
        return {};
      }
    }
    return std::move(free_at_);
  }

 private:
  [[nodiscard]] std::size_t place(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * micro_batches_ + micro_batch;
  }

  // When what is sent by a mesh now is at another.
  double arrival(int from_stage, int to_stage, double send_s) {
    const int from = s_.mesh_of[from_stage];
    const int to = s_.mesh_of[to_stage];
    if (from == to) {
      return free_at_[from];
    }
    double& link_free_at = links_[from * orders_.size() + to];
    link_free_at = std::max(link_free_at, free_at_[from]) + send_s;
    return link_free_at;
  }

  // Runs a mesh as far as it gets; whether it got anywhere.
  bool advance(int mesh) {
    const std::size_t begin = next_[mesh];
    for (; next_[mesh] < orders_[mesh].size(); ++next_[mesh]) {
      const OrderEntry& task = orders_[mesh][next_[mesh]];
      const int stage = stages_of_[mesh][task.chunk];
      const std::size_t here = place(stage, task.micro_batch);
      if (task.phase == 'W') {
        free_at_[mesh] += s_.weight_s[stage];
        continue;
      }
      const bool forward = task.phase == 'F';
      const double there = (forward ? forward_there_ : backward_there_)[here];
      if (there == kNotYet) {
        break;
      }
      free_at_[mesh] =
          std::max(free_at_[mesh], there) + (forward ? s_.forward_s : s_.backward_s)[stage];
      if (forward && stage < last_) {
        forward_there_[place(stage + 1, task.micro_batch)] =
            arrival(stage, stage + 1, s_.send_s[stage]);
      } else if (forward) {
        backward_there_[here] = free_at_[mesh];
      } else if (stage > 0) {
        backward_there_[place(stage - 1, task.micro_batch)] =
            arrival(stage, stage - 1, s_.send_s[stage - 1]);
      }
    }
    return next_[mesh] > begin;
  }

  const PlayedStages& s_;
  const std::vector<std::vector<OrderEntry>>& orders_;
  int last_;
  int micro_batches_ = 0;
  std::vector<std::vector<int>> stages_of_;  // by mesh and chunk
  std::vector<std::size_t> next_;            // by mesh: task of its order
  std::vector<double> free_at_;              // by mesh
  std::vector<double> forward_there_;        // by stage and micro-batch: when F can begin
  std::vector<double> backward_there_;       // the same of B
  std::vector<double> links_;                // by mesh from and to: when it is free
};

}  // namespace

std::vector<double> played_seconds(const PlayedStages& stages,
                                   const std::vector<std::vector<OrderEntry>>& orders) {
  return PipelinePlay(stages, orders).run();
}

}  // namespace weft
