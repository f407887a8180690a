// A job uses thousands of links, but few differ: links that carry the same numbers of flows of the
// same patterns fill at the same pace, so the slowest of them stands for all. What one pattern
// alone uses cannot be contended for: an exchange never takes more than it would alone, and
// exchanges of one pattern follow each other on their lanes.

#include "weft/simulate/share_links.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

using Signature = std::vector<std::pair<int, double>>;  // pattern of the game, its flows

// The cost model's patterns that occur, ascending.
std::vector<int> used_patterns(const Game& game) {
  std::vector<int> used;
  for (const PlayedExchange& exchange : game.exchanges) {
    if (exchange.pattern >= static_cast<int>(used.size())) {
      used.resize(exchange.pattern + 1, -1);
    }
    if (exchange.pattern >= 0) {
      used[exchange.pattern] = exchange.pattern;
    }
  }
  std::erase(used, -1);
  return used;
}

}  // namespace

void share_links(const CostModel& cost, Game& game) {
  const std::vector<int> used = used_patterns(game);
  std::vector<Signature> signatures(cost.cluster().links.size());
  std::vector<int> links;
  for (std::size_t number = 0; number < used.size(); ++number) {
    for (const LinkLoad& flows : cost.flows(used[number])) {
      if (signatures[flows.link].empty()) {
        links.push_back(flows.link);
      }
      signatures[flows.link].emplace_back(static_cast<int>(number), flows.amount);
    }
  }
  std::map<Signature, double> slowest;
  for (const int link : links) {
    if (signatures[link].size() > 1) {
      const double bandwidth = cost.cluster().links[link].bandwidth;
      const auto [entry, fresh] = slowest.try_emplace(std::move(signatures[link]), bandwidth);
      entry->second = std::min(entry->second, bandwidth);
    }
  }
  std::vector<std::vector<Use>> patterns(used.size());
  for (const auto& [signature, bandwidth] : slowest) {
    for (const auto& [number, flows] : signature) {
      patterns[number].push_back({static_cast<int>(game.resources.size()), flows});
    }
    game.resources.push_back(bandwidth);
  }
  std::vector<int> kept(used.empty() ? 0 : used.back() + 1, -1);  // by the cost model's pattern
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (!patterns[i].empty()) {
      kept[used[i]] = static_cast<int>(game.patterns.size());
      game.patterns.push_back(std::move(patterns[i]));
    }
  }
  for (PlayedExchange& exchange : game.exchanges) {
    exchange.pattern = exchange.pattern < 0 ? -1 : kept[exchange.pattern];
  }
}

}  // namespace weft
