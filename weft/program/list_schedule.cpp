// Plays the pipeline in units of time (F and W one, B one or, with W in it, two) and lets each
// mesh, whenever it is free, take the best of what is ready:
//
//   1. backward, of the earliest micro-batch, of its latest stage: it frees memory and lets earlier
//      meshes go on
//   2. forward, of the latest stage, of the earliest micro-batch. A micro-batch that comes to a
//   mesh
//      for the first time needs room there for all of the mesh's stages, so that none is ever
//      stuck half-way
//   3. a gradient of weights: it keeps nobody waiting, so it fills what would be idle
//
// A mesh that holds as much as it may takes weights before it waits.

#include "weft/program/list_schedule.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

class Play {
 public:
  explicit Play(const ListSchedule& problem)
      : p_(problem),
        stages_(static_cast<int>(problem.mesh_of.size())),
        meshes_(static_cast<int>(problem.most_in_flight.size())),
        orders_(meshes_),
        free_(meshes_, 0),
        held_(meshes_, 0),
        chunks_(meshes_, 0),
        ready_(meshes_),
        changed_(meshes_, 1),
        choices_(meshes_) {
    for (const int mesh : p_.mesh_of) {
      chunk_.push_back(chunks_[mesh]++);
    }
    for (int m = 0; m < p_.micro_batches; ++m) {
      add('F', 0, m, 0);
    }
  }

  std::vector<std::vector<OrderEntry>> run() {
    const int phases = p_.weights ? 3 : 2;
    for (int left = phases * stages_ * p_.micro_batches; left > 0; --left) {
      Choice best;
      for (int mesh = 0; mesh < meshes_; ++mesh) {
        if (std::exchange(changed_[mesh], 0) != 0) {
          choices_[mesh] = choose(mesh);
        }
        best = std::min(best, choices_[mesh]);
      }
      WEFT_CHECK(best.at != kNever);
      take(best);
    }
    return std::move(orders_);
  }

 private:
  /// What a mesh could do: sorted by what is taken first.
  struct Task {
    int rank = 0;  // 0 backward, 1 forward, 2 weight
    int first = 0;
    int second = 0;
    char phase = 'F';
    int stage = 0;
    int micro_batch = 0;
    int at = 0;  // when it is ready
    bool operator<(const Task& other) const {
      return std::tie(rank, first, second) < std::tie(other.rank, other.first, other.second);
    }
  };
  struct Choice {
    int at = kNever;
    int mesh = 0;
    Task task = {};
    bool operator<(const Choice& other) const {
      return std::tie(at, mesh) < std::tie(other.at, other.mesh);
    }
  };

  void add(char phase, int stage, int micro_batch, int at) {
    Task task{.phase = phase, .stage = stage, .micro_batch = micro_batch, .at = at};
    task.rank = phase == 'B' ? 0 : phase == 'F' ? 1 : 2;
    task.first = phase == 'F' ? -stage : micro_batch;
    task.second = phase == 'F' ? micro_batch : -stage;
    ready_[p_.mesh_of[stage]].insert(task);
    changed_[p_.mesh_of[stage]] = 1;
  }

  /// The first task by rank among those that can begin earliest.
  Choice choose(int mesh) const {
    Choice best{.at = kNever, .mesh = mesh};
    const bool full = held_[mesh] > 0 && held_[mesh] + chunks_[mesh] > p_.most_in_flight[mesh];
    for (const Task& task : ready_[mesh]) {
      const int at = std::max(task.at, free_[mesh]);
      const bool enters = task.phase == 'F' && chunk_[task.stage] == 0;
      if (!(enters && full) && at < best.at) {
        best.at = at;
        best.task = task;
      }
      if (best.at == free_[mesh]) {
        break;  // none begins earlier
      }
    }
    return best;
  }

  void take(const Choice choice) {
    const Task task = choice.task;
    ready_[choice.mesh].erase(task);
    changed_[choice.mesh] = 1;
    const int end = choice.at + (task.phase == 'B' && !p_.weights ? 2 : 1);
    free_[choice.mesh] = end;
    orders_[choice.mesh].push_back(
        {.phase = task.phase, .micro_batch = task.micro_batch, .chunk = chunk_[task.stage]});
    if (task.phase == 'F') {
      held_[choice.mesh] += chunk_[task.stage] == 0 ? chunks_[choice.mesh] : 0;
      const bool last = task.stage + 1 == stages_;
      add(last ? 'B' : 'F', last ? task.stage : task.stage + 1, task.micro_batch, end);
    } else if (task.phase == 'B') {
      held_[choice.mesh] -= p_.weights ? 0 : 1;
      if (task.stage > 0) {
        add('B', task.stage - 1, task.micro_batch, end);
      }
      if (p_.weights) {
        add('W', task.stage, task.micro_batch, end);
      }
    } else {
      --held_[choice.mesh];
    }
  }

  const ListSchedule& p_;
  int stages_;
  int meshes_;
  std::vector<int> chunk_;  // by stage
  std::vector<std::vector<OrderEntry>> orders_;
  std::vector<int> free_;
  std::vector<int> held_;    // by mesh: pairs for which there is room
  std::vector<int> chunks_;  // by mesh
  std::vector<std::set<Task>> ready_;
  std::vector<char> changed_;  // by mesh: what it may choose from, or when it is free
  std::vector<Choice> choices_;
};

}  // namespace

std::vector<std::vector<OrderEntry>> interleaved_schedule(int meshes, int chunks,
                                                          int micro_batches) {
  const int rounds = (micro_batches + meshes - 1) / meshes;
  const int tasks = rounds * meshes * chunks;
  // Task k of a mesh; backward goes through the chunks in reverse.
  const auto entry = [&](int k, char phase) {
    const int in_round = k % (meshes * chunks);
    const int chunk = in_round / meshes;
    return OrderEntry{.phase = phase,
                      .micro_batch = k / (meshes * chunks) * meshes + in_round % meshes,
                      .chunk = phase == 'F' ? chunk : chunks - 1 - chunk};
  };
  std::vector<std::vector<OrderEntry>> orders(static_cast<std::size_t>(meshes));
  for (int mesh = 0; mesh < meshes; ++mesh) {
    const int ahead = std::min(tasks, 2 * (meshes - 1 - mesh) + (chunks - 1) * meshes);
    const auto add = [&](const OrderEntry& e) {
      if (e.micro_batch < micro_batches) {
        orders[static_cast<std::size_t>(mesh)].push_back(e);
      }
    };
    for (int k = 0; k < tasks + ahead; ++k) {
      if (k < tasks) {
        add(entry(k, 'F'));
      }
      if (k >= ahead) {
        add(entry(k - ahead, 'B'));
      }
    }
  }
  return orders;
}

std::vector<std::vector<OrderEntry>> list_schedule(const ListSchedule& problem) {
  WEFT_CHECK(!problem.mesh_of.empty() && problem.micro_batches >= 1);
  return Play(problem).run();
}

}  // namespace weft
