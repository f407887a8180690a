// A task begins when its mesh has done what comes before it in the mesh's order and what it needs
// is there:
//
//     F(s, i) needs F(s-1, i), sent       B(s, i) needs B(s+1, i), sent; the last stage F(s, i)
//
// What a mesh sends to another goes in the order of its tasks. Which tasks can follow each other
// does not depend on their seconds. So meshes are run in turn once, each as far as it gets:
// forwards go down the pipeline and backwards up, so the sweeps alternate. The row of tasks that
// comes out of it is played in one pass.

#include "weft/search/play_pipeline.h"

#include <algorithm>

namespace weft {

class PlayedOrder::Finder {
 public:
  Finder(const std::vector<int>& mesh_of, const std::vector<std::vector<OrderEntry>>& orders,
         std::vector<Task>& tasks)
      : mesh_of_(mesh_of),
        orders_(orders),
        tasks_(tasks),
        last_(static_cast<int>(mesh_of.size()) - 1),
        stages_of_(orders.size()),
        next_(orders.size(), 0) {
    for (int s = 0; s <= last_; ++s) {
      stages_of_[mesh_of[s]].push_back(s);
    }
    for (const OrderEntry& entry : orders[0]) {
      micro_batches_ = std::max(micro_batches_, entry.micro_batch + 1);
    }
    is_there_.assign(2 * mesh_of.size() * static_cast<std::size_t>(micro_batches_), false);
  }

  // Whether all orders come to their end.
  bool run() {
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
    return std::ranges::equal(next_, orders_, {}, {},
                              [](const std::vector<OrderEntry>& order) { return order.size(); });
  }

  [[nodiscard]] int things() const { return static_cast<int>(is_there_.size()); }

 private:
  [[nodiscard]] int thing(Kind kind, int stage, int micro_batch) const {
    const int stages = last_ + 1;
    return ((kind == Kind::forward ? 0 : stages) + stage) * micro_batches_ + micro_batch;
  }

  // What a stage makes for another one, or the last one for itself.
  void make(Task& task, int to_stage, Kind needed_by, int micro_batch) {
    const int to = mesh_of_[to_stage];
    task.output = thing(needed_by, to_stage, micro_batch);
    task.link = task.mesh == to ? -1 : task.mesh * static_cast<int>(orders_.size()) + to;
    is_there_[task.output] = true;
  }

  // Runs a mesh as far as it gets; whether it got anywhere.
  bool advance(int mesh) {
    const std::size_t begin = next_[mesh];
    for (; next_[mesh] < orders_[mesh].size(); ++next_[mesh]) {
      const OrderEntry& entry = orders_[mesh][next_[mesh]];
      const Kind kind = entry.phase == 'F'   ? Kind::forward
                        : entry.phase == 'B' ? Kind::backward
                                             : Kind::weight;
      Task task{.kind = kind, .stage = stages_of_[mesh][entry.chunk], .mesh = mesh};
      if (kind != Kind::weight && (kind == Kind::backward || task.stage > 0)) {
        task.input = thing(kind, task.stage, entry.micro_batch);
        if (!is_there_[task.input]) {
          break;
        }
      }
      if (kind == Kind::forward) {
        const bool turns = task.stage == last_;
        make(task, turns ? last_ : task.stage + 1, turns ? Kind::backward : Kind::forward,
             entry.micro_batch);
      } else if (kind == Kind::backward && task.stage > 0) {
        make(task, task.stage - 1, Kind::backward, entry.micro_batch);
      }
      tasks_.push_back(task);
    }
    return next_[mesh] > begin;
  }

  const std::vector<int>& mesh_of_;
  const std::vector<std::vector<OrderEntry>>& orders_;
  std::vector<Task>& tasks_;
  int last_;
  int micro_batches_ = 0;
  std::vector<std::vector<int>> stages_of_;  // by mesh and chunk
  std::vector<std::size_t> next_;            // by mesh: task of its order
  std::vector<bool> is_there_;               // by thing
};

PlayedOrder::PlayedOrder(const std::vector<int>& mesh_of,
                         const std::vector<std::vector<OrderEntry>>& orders)
    : meshes_(static_cast<int>(orders.size())) {
  Finder finder(mesh_of, orders, tasks_);
  ends_ = finder.run();
  things_ = finder.things();
}

std::vector<double> PlayedOrder::play(const PlayedStages& stages) const {
  if (!ends_) {
    return {};
  }
  std::vector<double> free_at(meshes_, 0);                 // meshes
  std::vector<double> link_free_at(meshes_ * meshes_, 0);  // links, by mesh from and to
  std::vector<double> there_at(things_, 0);                // what tasks need
  const double* seconds[] = {stages.forward_s.data(), stages.backward_s.data(),
                             stages.weight_s.data()};  // by kind
  for (const Task& task : tasks_) {
    double& free = free_at[task.mesh];
    if (task.input >= 0) {
      free = std::max(free, there_at[task.input]);
    }
    free += seconds[static_cast<int>(task.kind)][task.stage];
    if (task.output < 0) {
      continue;
    }
    if (task.link >= 0) {
      double& link = link_free_at[task.link];
      link = std::max(link, free) +
             stages.send_s[task.kind == Kind::forward ? task.stage : task.stage - 1];
      there_at[task.output] = link;
    } else {
      there_at[task.output] = free;
    }
  }
  return free_at;
}

}  // namespace weft
