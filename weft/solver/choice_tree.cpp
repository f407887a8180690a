// The structure of an elimination: order, neighbours, and where every table lies.
//
// Variables leave in the order of the cells their elimination needs (least first, ties by number).
// When v leaves, its neighbours u_1 .. u_m, last get the message
//
//   M(u_1, .., u_m, last) = min over v of ( sum of v's tables and messages ),
//
// which is read by the bucket of the first of them to leave, its parent. Neighbours are ordered as
// the parent reads them: (its outer ones, its variable, its last one). So a message is written
// where and how the parent reads it, and the last index is contiguous in every table with `last`.

#include "weft/solver/choice_tree.h"

#include <algorithm>
#include <set>

namespace weft::choice {
namespace {

constexpr std::size_t kLanes = 4;

std::size_t padded(int count) {
  return (static_cast<std::size_t>(count) + kLanes - 1) / kLanes * kLanes;
}

bool has(const std::vector<int>& list, int value) {
  return std::ranges::find(list, value) != list.end();
}

double elimination_cells(const Core& core, int v, const std::set<int>& neighbours) {
  double cells = core.count(v);
  for (const int u : neighbours) {
    cells *= core.count(u);
  }
  return cells;
}

}  // namespace

Tree::Tree(const Core& core, const std::vector<int>& roots) : core_(&core), roots_(roots) {
  order(roots);
  place_tables();
  place_messages();
  sort_slots();
}

void Tree::order(const std::vector<int>& roots) {
  const int n = core_->size();
  std::vector<std::set<int>> neighbours(static_cast<std::size_t>(n));
  for (const CorePair& pair : core_->pairs) {
    neighbours[pair.first].insert(pair.second);
    neighbours[pair.second].insert(pair.first);
  }
  position_.assign(static_cast<std::size_t>(n), n);
  std::set<std::pair<double, int>> queue;
  std::vector<double> weight(static_cast<std::size_t>(n), 0.0);
  const auto enqueue = [&](int v) {
    if (!has(roots, v)) {
      queue.erase({weight[v], v});
      weight[v] = elimination_cells(*core_, v, neighbours[v]);
      queue.insert({weight[v], v});
    }
  };
  for (int v = 0; v < n; ++v) {
    enqueue(v);
  }
  std::vector<std::vector<int>> scopes;
  while (!queue.empty()) {
    const int v = queue.begin()->second;
    queue.erase(queue.begin());
    position_[v] = static_cast<int>(scopes.size());
    largest_ = std::max(largest_, weight[v]);
    cells_ += weight[v];
    buckets_.push_back({.variable = v, .values = core_->count(v)});
    scopes.emplace_back(neighbours[v].begin(), neighbours[v].end());
    for (const int u : scopes.back()) {
      neighbours[u].insert(scopes.back().begin(), scopes.back().end());
      neighbours[u].erase(u);
      neighbours[u].erase(v);
    }
    std::ranges::for_each(scopes.back(), enqueue);
  }
  place_scopes(scopes);
}

// The bucket that reads a table of these variables; as many as there are buckets: the root.
int Tree::bucket_of(const std::vector<int>& variables) const {
  int first = static_cast<int>(buckets_.size());
  for (const int v : variables) {
    first = std::min(first, position_[v]);
  }
  return first;
}

std::vector<int> Tree::sequence(int bucket) const {
  if (bucket == static_cast<int>(buckets_.size())) {
    return roots_;
  }
  std::vector<int> result = buckets_[bucket].outer;
  result.push_back(buckets_[bucket].variable);
  if (buckets_[bucket].last >= 0) {
    result.push_back(buckets_[bucket].last);
  }
  return result;
}

void Tree::place_scopes(const std::vector<std::vector<int>>& scopes) {
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    Bucket& bucket = buckets_[b];
    if (scopes[b].empty()) {
      continue;
    }
    for (const int v : sequence(bucket_of(scopes[b]))) {
      if (has(scopes[b], v)) {
        bucket.outer.push_back(v);
      }
    }
    bucket.last = bucket.outer.back();
    bucket.last_count = core_->count(bucket.last);
    bucket.width = padded(bucket.last_count);
    bucket.outer.pop_back();
    for (const int v : bucket.outer) {
      bucket.counts.push_back(core_->count(v));
      bucket.outer_cells *= static_cast<std::size_t>(bucket.counts.back());
    }
  }
}

void Tree::place_tables() {
  for (int v = 0; v < core_->size(); ++v) {
    place_table(core_->nodes[v].costs, {v});
  }
  for (const CorePair& pair : core_->pairs) {
    place_table(pair.costs, {pair.first, pair.second});
  }
  table_cells_ = arena_size_;
}

void Tree::place_table(const Costs& costs, const std::vector<int>& variables) {
  const int b = bucket_of(variables);
  std::vector<int> order;
  for (const int v : sequence(b)) {
    if (has(variables, v)) {
      order.push_back(v);
    }
  }
  Table table{.costs = &costs, .at = arena_size_};
  table.columns = core_->count(order.back());
  table.width = padded(table.columns);
  table.rows = order.size() == 2 ? core_->count(order.front()) : 1;
  table.turned = order.size() == 2 && order.front() != variables.front();
  arena_size_ += static_cast<std::size_t>(table.rows) * table.width;

  Slot slot{.at = table.at};
  tables_.push_back(std::move(table));
  const std::size_t width = tables_.back().width;
  const auto step = [&](int v) {
    return !has(order, v) ? 0 : v == order.back() ? std::size_t{1} : width;
  };
  if (b == static_cast<int>(buckets_.size())) {
    slot.step = {step(roots_[0]), step(roots_[1])};
    root_slots_.push_back(std::move(slot));
    return;
  }
  Bucket& bucket = buckets_[b];
  std::ranges::transform(bucket.outer, std::back_inserter(slot.step), step);
  (has(order, bucket.last) ? bucket.squares : bucket.rows).push_back(std::move(slot));
}

void Tree::place_messages() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket.message = arena_size_;
    arena_size_ += bucket.last < 0 ? kLanes : bucket.outer_cells * bucket.width;
    if (bucket.last < 0) {
      continue;
    }
    std::vector<int> scope = bucket.outer;
    scope.push_back(bucket.last);
    const auto step = [&](int v) {
      if (v == bucket.last) {
        return std::size_t{1};
      }
      std::size_t cells = bucket.width;
      for (std::size_t i = bucket.outer.size(); i-- > 0 && bucket.outer[i] != v;) {
        cells *= static_cast<std::size_t>(bucket.counts[i]);
      }
      return has(scope, v) ? cells : 0;
    };
    Slot slot{.at = bucket.message, .step = {}, .child = static_cast<int>(b)};
    const int parent = bucket_of(scope);
    if (parent == static_cast<int>(buckets_.size())) {
      slot.step = {step(roots_[0]), step(roots_[1])};
      root_slots_.push_back(std::move(slot));
      continue;
    }
    Bucket& to = buckets_[parent];
    std::ranges::transform(to.outer, std::back_inserter(slot.step), step);
    (to.last >= 0 && has(scope, to.last) ? to.squares : to.rows).push_back(std::move(slot));
  }
}

void Tree::sort_slots() {
  const auto still_first = [](std::vector<Slot>& slots) {
    const auto moving = std::stable_partition(slots.begin(), slots.end(), [](const Slot& slot) {
      return std::ranges::all_of(slot.step, [](std::size_t step) { return step == 0; });
    });
    return static_cast<std::size_t>(moving - slots.begin());
  };
  for (Bucket& bucket : buckets_) {
    bucket.still_rows = still_first(bucket.rows);
    bucket.still_squares = still_first(bucket.squares);
  }
}

void Tree::fill() {
  base_.assign(static_cast<std::size_t>(core_->kinds), 0.0);
  kinds_.clear();
  for (Table& table : tables_) {
    fill_table(table);
  }
  arena_.assign(arena_size_, 0.0F);
  time_.assign(table_cells_, 0.0F);
  memory_.assign(table_cells_, 0.0F);
}

namespace {

double least_allowed(const Costs& costs, const std::vector<double>& kind) {
  double least = 0;
  bool any = false;
  for (std::size_t i = 0; i < kind.size(); ++i) {
    if (costs.forbidden.empty() || costs.forbidden[i] == 0) {
      least = any ? std::min(least, kind[i]) : kind[i];
      any = true;
    }
  }
  return least;
}

}  // namespace

void Tree::fill_table(Table& table) {
  const auto columns = static_cast<std::size_t>(table.columns);
  const auto rows = static_cast<std::size_t>(table.rows);
  const std::size_t cells = rows * table.width;
  const std::vector<char>& forbidden = table.costs->forbidden;
  const auto copy = [&](const auto& value) {
    const std::size_t at = kinds_.size();
    kinds_.resize(at + cells, 0.0F);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        kinds_[at + r * table.width + c] = value(table.turned ? c * rows + r : r * columns + c);
      }
    }
    return at;
  };
  for (int k = 0; k < core_->kinds; ++k) {
    const std::vector<double>& kind = table.costs->kind[k];
    if (kind.empty()) {
      continue;
    }
    const double least = least_allowed(*table.costs, kind);
    base_[k] += least;
    table.kinds.emplace_back(k, copy([&](std::size_t cell) {
                               const bool allowed = forbidden.empty() || forbidden[cell] == 0;
                               return allowed ? static_cast<float>(kind[cell] - least) : 0.0F;
                             }));
  }
  table.forbids = !forbidden.empty();
  if (table.forbids) {
    table.forbidden = copy([&](std::size_t cell) { return forbidden[cell] != 0 ? 1.0F : 0.0F; });
  }
}

std::vector<double> Tree::laid_out(int kind) const {
  std::vector<double> result(table_cells_, 0.0);
  for (const Table& table : tables_) {
    const std::vector<double>& costs = table.costs->kind[kind];
    const double least = least_allowed(*table.costs, costs);
    const auto columns = static_cast<std::size_t>(table.columns);
    const auto rows = static_cast<std::size_t>(table.rows);
    for (std::size_t r = 0; !costs.empty() && r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        const std::size_t cell = table.turned ? c * rows + r : r * columns + c;
        result[table.at + r * table.width + c] = costs[cell] - least;
      }
    }
  }
  return result;
}

}  // namespace weft::choice
