// Best first over plans that are built stage by stage from the front. A node has the stages so far;
// with p the time until the first micro-batch gets to the next stage and z the time from the end of
// that stage's last backward pass to the end of the stages before it, the next stage leads to
//
//     bound = max(bound so far, p + X + max(y, z), p + Y)
//
// with X, Y of BoundTable for the rest and y the next stage's gradient sum. Nodes are taken in the
// order of their bounds, of equal ones the deeper, then the earlier. A whole plan is simulated. The
// search ends when the least bound is no less than the best step, or when it has used up its work.

#include "weft/search/chain_search.h"

#include <algorithm>
#include <queue>

namespace weft {
namespace {

constexpr int kMostExpanded = 2500;
constexpr std::int64_t kMostTasks = 1'000'000;
constexpr double kSlack = 1 - 1e-12;  // sums of doubles in another order

struct Node {
  double bound_s = 0;
  int parent = -1;
  int stages_left = 0;
  int cut = 0;           // where the next stage begins
  int place = 0;         // end of the last stage's devices
  int count = 0;         // devices of the last stage
  int begin = 0;         // cut before the last stage
  double reached_s = 0;  // p without the way to the next stage
  double tail_s = 0;     // z without the way back to the last stage
};

class Search {
 public:
  Search(const BoundTable& bounds, BestChainPlans& best)
      : bounds_(bounds), grid_(bounds.grid()), best_(best) {}

  bool run() {
    for (int stages = 1; stages <= bounds_.most_stages(); ++stages) {
      push({.bound_s = bounds_.rest(stages, 0, 0).end_s, .stages_left = stages});
    }
    int expanded = 0;
    const std::int64_t stop_at = best_.tasks() + kMostTasks;
    while (!open_.empty() && is_promising(nodes_[open_.top()])) {
      const int top = open_.top();
      open_.pop();
      if (nodes_[top].stages_left == 0) {
        best_.offer(grid_.cost(), plan_of(top));
      } else {
        expand(top);
        ++expanded;
      }
      if (expanded >= kMostExpanded || best_.tasks() >= stop_at) {
        return open_.empty() || !is_promising(nodes_[open_.top()]);
      }
    }
    return true;
  }

 private:
  [[nodiscard]] bool is_promising(const Node& node) const {
    return node.bound_s < best_.step_s() * kSlack;
  }

  void push(const Node& node) {
    if (is_promising(node)) {
      nodes_.push_back(node);
      open_.push(static_cast<int>(nodes_.size()) - 1);
    }
  }

  void expand(int parent) {
    const Node node = nodes_[parent];
    const int stages = node.stages_left;
    const int last_end = grid_.parts() - (stages - 1);
    for (const int place : grid_.next_places(node.place)) {
      for (int count = 1; count <= bounds_.most_count(place); ++count) {
        const double send_s = way_to(node, place, count);
        for (int end = stages == 1 ? last_end : node.cut + 1; end <= last_end; ++end) {
          ChainStageCost cost;
          if (!bounds_.stage_cost(stages, grid_.stage(node.cut, end, place, count), cost) ||
              cost.work_s >= best_.step_s()) {
            break;  // more layers need no less
          }
          cost.sync_s = grid_.sync_seconds(node.cut, end, place, count);
          push(child(parent, {.end = end, .place = place, .count = count}, send_s, cost));
        }
      }
    }
  }

  // From the last stage of a node to a next one on these devices.
  [[nodiscard]] double way_to(const Node& node, int place, int count) const {
    if (node.count == 0) {
      return 0;
    }
    return grid_.cost().transfer_seconds(
        grid_.stage(node.begin, node.cut, node.place - node.count, node.count),
        grid_.stage(node.cut, node.cut + 1, place, count), bounds_.micro_batches().small());
  }

  struct NextStage {
    int end = 0;  // the cut behind it
    int place = 0;
    int count = 0;
  };

  [[nodiscard]] Node child(int parent, const NextStage& next, double send_s,
                           const ChainStageCost& cost) const {
    const Node& node = nodes_[parent];
    const int stages = node.stages_left;
    const double arrival_s = node.reached_s + send_s;
    const double tail_s = std::max(cost.sync_s, node.tail_s + send_s);
    const bool last = stages == 1;
    const SuffixBound bound = bounds_.extend(
        stages, cost, last ? 0 : bounds_.least_send_s(next.end, next.place, next.count),
        last ? SuffixBound{} : bounds_.rest(stages - 1, next.end, next.place + next.count));
    return {.bound_s = std::max(
                {node.bound_s, arrival_s + bound.backward_s + tail_s, arrival_s + bound.end_s}),
            .parent = parent,
            .stages_left = stages - 1,
            .cut = next.end,
            .place = next.place + next.count,
            .count = next.count,
            .begin = node.cut,
            .reached_s = arrival_s + cost.forward_s,
            .tail_s = cost.backward_s + tail_s};
  }

  [[nodiscard]] ChainPlan plan_of(int leaf) const {
    ChainPlan plan{.micro_batches = bounds_.micro_batches().count, .schedule = bounds_.schedule()};
    for (int id = leaf; nodes_[id].count > 0; id = nodes_[id].parent) {
      const Node& node = nodes_[id];
      plan.stages.push_back(grid_.stage(node.begin, node.cut, node.place - node.count, node.count));
    }
    std::ranges::reverse(plan.stages);
    return plan;
  }

  struct Later {
    const std::vector<Node>* nodes = nullptr;
    bool operator()(int a, int b) const {
      const Node& x = (*nodes)[a];
      const Node& y = (*nodes)[b];
      if (x.bound_s != y.bound_s) {
        return x.bound_s > y.bound_s;
      }
      return x.stages_left != y.stages_left ? x.stages_left > y.stages_left : a > b;
    }
  };

  const BoundTable& bounds_;
  const ChainGrid& grid_;
  BestChainPlans& best_;
  std::vector<Node> nodes_;
  std::priority_queue<int, std::vector<int>, Later> open_{Later{&nodes_}};
};

}  // namespace

double BestChainPlans::offer(const ChainCost& cost, ChainPlan plan) {
  if (!fit_stages(cost, plan)) {
    return std::numeric_limits<double>::infinity();
  }
  const double step_s = chain_step_seconds(cost, plan);
  ++simulated_;
  tasks_ += 2 * plan.micro_batches * std::ssize(plan.stages);
  const auto alike = std::ranges::find_if(plans_, [&](const TimedChainPlan& known) {
    return known.cost == &cost && known.plan.micro_batches == plan.micro_batches &&
           known.plan.schedule == plan.schedule && known.plan.stages.size() == plan.stages.size();
  });
  if (alike != plans_.end()) {
    if (step_s >= alike->step_s * kSlack) {
      return step_s;
    }
    plans_.erase(alike);
  }
  const auto after = std::ranges::find_if(
      plans_, [&](const TimedChainPlan& known) { return step_s < known.step_s * kSlack; });
  plans_.insert(after, {.step_s = step_s, .plan = std::move(plan), .cost = &cost});
  plans_.resize(std::min(plans_.size(), most_));
  return step_s;
}

bool search_chain(const BoundTable& bounds, BestChainPlans& best) {
  return Search(bounds, best).run();
}

}  // namespace weft
