// Memory couples all nodes that live at the same time. A box in the space of usages,
//
//   usage_i <= cap_i  for all i, with  sum of cap_i over the nodes alive at t <= capacity(t),
//
// makes them independent: whatever is chosen inside fits. The search moves from box to box.

#include "weft/solver/usage_box.h"

#include <algorithm>
#include <numeric>

#include "weft/solver/usage_profile.h"

namespace weft::selection {
namespace {

struct Caps {
  const Core& core;
  const std::vector<int>& nodes;  // of the block that memory binds
  UsageProfile excess;
  std::vector<std::size_t> level{};  // by place in `nodes`
};

std::int64_t cap(const Caps& caps, std::size_t n) {
  return caps.core.nodes[caps.nodes[n]].levels[caps.level[n]];
}

void set_level(Caps& caps, std::size_t n, std::size_t level) {
  const CoreNode& node = caps.core.nodes[caps.nodes[n]];
  caps.excess.add(node.first, node.last, node.levels[level] - cap(caps, n));
  caps.level[n] = level;
}

// Lowers caps of nodes at the worst point until it fits; of a few candidates, the one whose next
// step frees the most without freeing more than is needed.
void mend(Caps& caps, Random& random) {
  while (caps.excess.size() > 0) {
    const int t = caps.excess.peak();
    const std::int64_t over = caps.excess.largest(t, t + 1);
    if (over <= 0) {
      return;
    }
    std::vector<std::size_t> able;
    for (std::size_t n = 0; n < caps.nodes.size(); ++n) {
      const CoreNode& node = caps.core.nodes[caps.nodes[n]];
      if (node.first <= t && t < node.last && caps.level[n] > 0) {
        able.push_back(n);
      }
    }
    if (able.empty()) {
      return;
    }
    std::size_t best = able[0];
    std::int64_t most = -1;
    for (int tries = 0; tries < 3; ++tries) {
      const std::size_t n = able[below(random, able.size())];
      const std::vector<std::int64_t>& levels = caps.core.nodes[caps.nodes[n]].levels;
      const std::int64_t frees = std::min(over, levels[caps.level[n]] - levels[caps.level[n] - 1]);
      if (frees > most) {
        most = frees;
        best = n;
      }
    }
    set_level(caps, best, caps.level[best] - 1);
  }
}

void raise(Caps& caps, std::size_t n) {
  const CoreNode& node = caps.core.nodes[caps.nodes[n]];
  const std::int64_t room = cap(caps, n) - caps.excess.largest(node.first, node.last);
  std::size_t level = caps.level[n];
  while (level + 1 < node.levels.size() && node.levels[level + 1] <= room) {
    ++level;
  }
  set_level(caps, n, level);
}

// If none of the allowed strategies is small enough, those that are become allowed.
void keep_below(const CoreNode& node, std::int64_t cap, std::vector<int>& allowed) {
  const auto too_large = [&](int s) { return node.usage[s] > cap; };
  if (std::ranges::all_of(allowed, too_large)) {
    allowed.resize(node.usage.size());
    std::iota(allowed.begin(), allowed.end(), 0);
  }
  std::erase_if(allowed, too_large);
}

}  // namespace

void cap_usages(const Core& core, const std::vector<int>& choice, int squeezed, Random& random,
                Block& block) {
  std::vector<int> bound;
  std::vector<std::size_t> order;
  std::vector<std::size_t> place;
  for (std::size_t v = 0; v < block.nodes.size(); ++v) {
    if (core.nodes[block.nodes[v]].bound()) {
      order.push_back(bound.size());
      bound.push_back(block.nodes[v]);
      place.push_back(v);
    }
  }
  if (bound.empty()) {
    return;
  }
  Caps caps{core, bound, UsageProfile(excess_of(core, choice))};
  for (const int node : bound) {
    const std::vector<std::int64_t>& levels = core.nodes[node].levels;
    caps.level.push_back(static_cast<std::size_t>(
        std::ranges::lower_bound(levels, core.nodes[node].usage[choice[node]]) - levels.begin()));
  }
  mend(caps, random);
  for (std::size_t n = order.size(); n > 1; --n) {
    std::swap(order[n - 1], order[below(random, n)]);
  }
  const std::size_t lowered = std::min(order.size(), static_cast<std::size_t>(squeezed));
  for (std::size_t n = 0; n < lowered; ++n) {
    set_level(caps, order[n], static_cast<std::size_t>(below(random, caps.level[order[n]] + 1)));
  }
  for (std::size_t n = lowered; n < order.size(); ++n) {
    raise(caps, order[n]);
  }
  for (std::size_t n = 0; n < bound.size(); ++n) {
    keep_below(core.nodes[bound[n]], cap(caps, n), block.allowed[place[n]]);
  }
}

}  // namespace weft::selection
