// Large-neighbourhood search. A move
//
//   1. takes a block: all nodes of a small core, else a ball around a random node or nodes that
//      live at the same time;
//   2. half of the time walks away from what is: the block's best choice at the dual's prices of
//      memory, scaled and shaken at random, which need not fit;
//   3. sometimes makes one node take another strategy;
//   4. draws a box of usages around it that fits (usage_box.cpp) and finds the block's best choice
//   in the
//      box by elimination (eliminate.cpp).
//
// So every choice that is kept fits. It replaces the present one if it is not much dearer; how much
// is allowed falls from kHot times the cost to nothing and starts again, from the best choice,
// after kPatience moves without success. Two workers do a few moves each, then exchange their best.

#include "weft/solver/selection_search.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "weft/solver/usage_box.h"

namespace weft::selection {
namespace {

constexpr int kSmallCore = 1000;
constexpr int kMovesOfRound = 4;
constexpr int kPatience = 60;
constexpr double kProgress = 1e-4;
constexpr double kHot = 0.01;
constexpr double kCooling = 0.9;
constexpr double kFirstCells = 1e4;

Block everything(const Core& core) {
  Block block;
  for (int i = 0; i < core.size(); ++i) {
    block.nodes.push_back(i);
  }
  return block;
}

void allow_all(const Core& core, Block& block) {
  block.allowed.assign(block.nodes.size(), {});
  for (std::size_t v = 0; v < block.nodes.size(); ++v) {
    for (int s = 0; s < static_cast<int>(core.nodes[block.nodes[v]].cost.size()); ++s) {
      block.allowed[v].push_back(s);
    }
  }
}

std::vector<int> smallest_usages(const Core& core) {
  std::vector<int> choice;
  for (const CoreNode& node : core.nodes) {
    int best = 0;
    for (int s = 1; s < static_cast<int>(node.cost.size()); ++s) {
      const auto key = [&](int x) {
        return std::pair(node.bound() ? node.usage[x] : 0, node.cost[x]);
      };
      best = key(s) < key(best) ? s : best;
    }
    choice.push_back(best);
  }
  return choice;
}

struct Worker {
  const Core& core;
  const std::vector<double>& price;  // by node
  Random random;
  Eliminator eliminator;
  Found now{};
  Found best{};
  double heat = 1;
  int since_better = 0;
};

// Nodes of forbidden edges are where a ball helps most.
int centre(Worker& w) {
  if (w.now.cost >= w.core.forbidden) {
    std::vector<int> broken;
    for (const CoreEdge& edge : w.core.edges) {
      if (edge.at(w.now.choice[edge.a], w.now.choice[edge.b]) >= w.core.forbidden) {
        broken.push_back(edge.a);
      }
    }
    if (!broken.empty()) {
      return broken[below(w.random, broken.size())];
    }
  }
  return below(w.random, w.core.nodes.size());
}

// The nodes nearest to a random one, neighbours in random order.
Block ball(Worker& w, std::size_t size) {
  Block block;
  std::vector<char> seen(w.core.nodes.size(), 0);
  block.nodes.push_back(centre(w));
  seen[block.nodes[0]] = 1;
  for (std::size_t at = 0; at < block.nodes.size() && block.nodes.size() < size; ++at) {
    const int node = block.nodes[at];
    const std::vector<int>& edges = w.core.incident[node];
    const int offset = edges.empty() ? 0 : below(w.random, edges.size());
    for (std::size_t k = 0; k < edges.size() && block.nodes.size() < size; ++k) {
      const CoreEdge& edge = w.core.edges[edges[(k + offset) % edges.size()]];
      const int other = edge.a == node ? edge.b : edge.a;
      if (seen[other] == 0) {
        seen[other] = 1;
        block.nodes.push_back(other);
      }
    }
  }
  return block;
}

// Nodes that share memory: some of those alive at a random point of time.
Block crowd(Worker& w, std::size_t size) {
  Block block;
  const int t = below(w.random, w.core.capacity.size());
  for (int i = 0; i < w.core.size(); ++i) {
    if (w.core.nodes[i].first <= t && t < w.core.nodes[i].last) {
      block.nodes.push_back(i);
    }
  }
  for (std::size_t n = block.nodes.size(); n > 1; --n) {
    std::swap(block.nodes[n - 1], block.nodes[below(w.random, n)]);
  }
  block.nodes.resize(std::min(block.nodes.size(), size));
  return block;
}

Block pick_block(Worker& w) {
  const std::size_t size = w.core.nodes.size();
  if (size <= kSmallCore && below(w.random, 4) > 0) {
    return everything(w.core);
  }
  const double most = std::min(2000.0, static_cast<double>(size));
  const auto some = static_cast<std::size_t>(std::exp(unit(w.random) * std::log(most))) + 10;
  const bool by_time = !w.core.capacity.empty() && below(w.random, 4) == 0;
  Block block = by_time ? crowd(w, some) : ball(w, some);
  return block.nodes.empty() ? ball(w, some) : block;
}

std::vector<double> shaken_prices(Worker& w, const Block& block) {
  std::vector<double> price(w.price.size(), 0);
  const double scale = std::exp(2 * unit(w.random) - 1);
  const double shake = unit(w.random);
  for (const int node : block.nodes) {
    price[node] = w.price[node] * scale * std::exp(shake * (2 * unit(w.random) - 1));
  }
  return price;
}

// Makes a random node of the block take another strategy, so that the others must follow.
void kick(Worker& w, Block& block, std::vector<int>& choice) {
  const std::size_t v = static_cast<std::size_t>(below(w.random, block.nodes.size()));
  const int strategy = below(w.random, block.allowed[v].size());
  block.allowed[v] = {strategy};
  choice[block.nodes[v]] = strategy;
}

void move(Worker& w) {
  Block block = pick_block(w);
  allow_all(w.core, block);
  const double cells = std::pow(10.0, 3.5 + 2 * unit(w.random));
  Found next = w.now;
  if (!w.core.capacity.empty() && below(w.random, 2) == 0) {
    w.eliminator(block, shaken_prices(w, block), cells, w.random, next.choice);
  }
  if (below(w.random, 3) == 0) {
    kick(w, block, next.choice);
  }
  const int squeezed = below(w.random, 12) < 6 ? 0 : below(w.random, 7);
  cap_usages(w.core, next.choice, squeezed, w.random, block);
  w.eliminator(block, {}, cells, w.random, next.choice);
  next.cost = cost_of(w.core, next.choice);
  const double slack =
      w.now.cost >= w.core.forbidden ? 0 : kHot * w.heat * unit(w.random) * std::abs(w.now.cost);
  w.heat *= kCooling;
  ++w.since_better;
  if (next.cost <= w.now.cost + slack && fits(w.core, next.choice)) {
    w.now = std::move(next);
  }
  if (w.now.cost < w.best.cost) {
    w.best = w.now;
    w.since_better = 0;
  }
  if (w.since_better >= kPatience) {
    w.now = w.best;
    w.since_better = 0;
    w.heat = 1;
  }
}

void play_round(std::vector<Worker>& workers, const std::function<bool()>& stop) {
  std::vector<std::thread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back([&worker, &stop] {
      for (int m = 0; m < kMovesOfRound && !stop(); ++m) {
        move(worker);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace

Found first_choice(const Core& core, const Dual& dual, std::uint64_t seed) {
  Random random(seed);
  Eliminator eliminator(core);
  Block block = everything(core);
  allow_all(core, block);
  Found found;
  for (const std::vector<double>& raised : raised_bounds(core, dual)) {
    found.choice.push_back(static_cast<int>(std::ranges::min_element(raised) - raised.begin()));
  }
  eliminator(block, node_prices(core, dual.price), kFirstCells, random, found.choice);
  cap_usages(core, found.choice, 0, random, block);
  eliminator(block, {}, kFirstCells, random, found.choice);
  if (!fits(core, found.choice)) {
    found.choice = smallest_usages(core);
  }
  found.cost = cost_of(core, found.choice);
  return found;
}

Found search(const Core& core, const Dual& dual, double enough, Found start,
             const SearchOptions& options) {
  if (core.nodes.empty()) {
    return start;
  }
  const std::vector<double> price = node_prices(core, dual.price);
  std::vector<Worker> workers;
  for (int t = 0; t < options.threads; ++t) {
    workers.push_back(
        {core, price, Random(options.seed * 1000 + t), Eliminator(core), start, start});
  }
  double before = start.cost;
  int idle = 0;
  while (idle < options.patience && start.cost > enough && !options.stop()) {
    play_round(workers, options.stop);
    for (const Worker& worker : workers) {
      if (worker.best.cost < start.cost) {
        start = worker.best;
      }
    }
    for (Worker& worker : workers) {
      if (start.cost < worker.best.cost) {
        worker.best = start;
      }
    }
    const bool progress = start.cost < before - kProgress * std::abs(before);
    idle = progress ? 0 : idle + 1;
    before = progress ? start.cost : before;
    if (options.report) {
      options.report(start.cost);
    }
  }
  return start;
}

}  // namespace weft::selection
