// A stage that has room for c bytes minimises sum t with sum M + working <= c over the ways of its
// layers' menus (stage_table.cpp), working = the most that one layer needs while it runs:
//
//   an estimate for cuts: at a price p every class takes the way with the least t + p M; these are
//   kept for a row of prices, and what lies between two of them is interpolated. Layers count by
//   class, so that many take no longer than few.
//   The answer for a cut: the best mix of all ways (solver/way_chain.h), to a ten-thousandth.

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/parallel.h"
#include "weft/search/stage_table.h"
#include "weft/solver/way_chain.h"

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kClose = 1e-4;  // share of a stage's time: as near as estimates are worth
constexpr int kPrices = 25;      // 0, and from 1e-3 to 1e3

double price_share(int number) {
  return number == 0 ? 0 : std::pow(10.0, -3.0 + 6.0 * (number - 1) / (kPrices - 2));
}

}  // namespace

// The way of every class that is best at each price.
const StageTable::PricedWays& StageTable::priced_ways(const PricedKey& key) {
  const auto [it, fresh] = priced_.try_emplace(key);
  PricedWays& priced = it->second;
  if (!fresh) {
    return priced;
  }
  for (int i = 0; i < kPrices; ++i) {
    const double price = price_share(i) * price_unit_;
    std::vector<WayCost>& ways = priced.emplace_back();
    for (const Block& block : blocks_) {
      WayCost& best = ways.emplace_back();
      double least = kNever;
      for (const LayerWay& way : block.menus[key.boundary]) {
        const double bytes = way_bytes(way, key.in_flight);
        const double total = way.seconds + price * bytes;
        if (total < least) {
          least = total;
          best = {.seconds = way.seconds, .bytes = bytes, .working_bytes = way.working_bytes};
        }
      }
    }
  }
  return priced;
}

// Layers [first, end) by block, without blocks that have none.
std::vector<StageTable::BlockCount> StageTable::count(int first, int end) const {
  const std::vector<std::vector<int>>& before = layers_before_[is_lent(first) ? 1 : 0];
  std::vector<BlockCount> counts;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (const int layers = before[end][b] - before[first][b]; layers > 0) {
      counts.push_back({static_cast<int>(b), layers});
    }
  }
  return counts;
}

StageTable::WayCost StageTable::total(const std::vector<WayCost>& ways,
                                      const std::vector<BlockCount>& counts) {
  WayCost sum{.seconds = 0, .bytes = 0};
  for (const BlockCount& count : counts) {
    const WayCost& way = ways[count.block];
    sum.seconds += count.layers * way.seconds;
    sum.bytes += count.layers * way.bytes;
    sum.working_bytes = std::max(sum.working_bytes, way.working_bytes);
  }
  return sum;
}

double StageTable::seconds(const StageQuestion& question) {
  double best = kNever;
  const std::vector<BlockCount> counts = count(question.first, question.end);
  for (std::size_t b = 0; b < boundaries_.size(); ++b) {
    const PricedWays& priced = priced_ways({static_cast<int>(b), question.in_flight});
    const auto at = [&](int price) { return total(priced[price], counts); };
    const auto bytes = [](const WayCost& cost) { return cost.bytes + cost.working_bytes; };
    // Memory falls as the price rises.
    int low = 0;
    int high = kPrices;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (bytes(at(middle)) <= question.bytes) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (low == kPrices) {
      continue;
    }
    const WayCost fits = at(low);
    double t = fits.seconds;
    if (low > 0) {
      const WayCost large = at(low - 1);
      if (bytes(large) > bytes(fits)) {
        const double share =
            std::clamp((question.bytes - bytes(fits)) / (bytes(large) - bytes(fits)), 0.0, 1.0);
        t -= share * (t - large.seconds);
      }
    }
    best = std::min(best, t);
  }
  return best;
}

// The best mix of all ways of the menus. Layers alike may change places: those that keep the least
// come first. Backward reaches them last, so that what they compute again comes when most of what
// the others kept is gone.
StageAnswer StageTable::best_mix(const MixKey& key) const {
  WayChain chain;
  std::vector<int> blocks;  // by menu of the chain
  for (const int b : key.blocks) {
    const auto known = std::ranges::find(blocks, b);
    chain.menu_of.push_back(static_cast<int>(known - blocks.begin()));
    if (known != blocks.end()) {
      continue;
    }
    blocks.push_back(b);
    chain.menus.emplace_back();
    for (const LayerWay& way : blocks_[b].menus[key.boundary]) {
      chain.menus.back().push_back({.seconds = way.seconds,
                                    .bytes = way_bytes(way, key.in_flight),
                                    .working_bytes = way.working_bytes});
    }
  }
  StageAnswer answer;
  answer.ways = fastest_ways(chain, key.bytes, kClose).ways;
  if (answer.ways.empty()) {
    return answer;
  }
  answer.boundary = key.boundary;
  for (std::size_t m = 0; m < blocks.size(); ++m) {
    const std::vector<ChainWay>& menu = chain.menus[m];
    std::vector<int> own;
    for (std::size_t i = 0; i < answer.ways.size(); ++i) {
      if (chain.menu_of[i] == static_cast<int>(m)) {
        own.push_back(answer.ways[i]);
      }
    }
    std::ranges::sort(own, [&](int a, int b) {
      return std::pair(menu[a].bytes, a) < std::pair(menu[b].bytes, b);
    });
    auto next = own.begin();
    for (std::size_t i = 0; i < answer.ways.size(); ++i) {
      if (chain.menu_of[i] == static_cast<int>(m)) {
        answer.ways[i] = *next++;
        add_way(blocks_[blocks[m]].menus[key.boundary][answer.ways[i]], answer.cost);
      }
    }
  }
  return answer;
}

StageTable::MixKey StageTable::mix_key(const StageQuestion& question, int boundary) const {
  MixKey key{
      .blocks = {}, .boundary = boundary, .in_flight = question.in_flight, .bytes = question.bytes};
  const bool lent = is_lent(question.first);
  for (int l = question.first; l < question.end; ++l) {
    key.blocks.push_back(block_of(l, lent));
  }
  return key;
}

void StageTable::prepare(std::span<const StageQuestion> questions) {
  std::vector<MixKey> keys;
  for (const StageQuestion& question : questions) {
    for (std::size_t b = 0; b < boundaries_.size(); ++b) {
      MixKey key = mix_key(question, static_cast<int>(b));
      if (!mixes_.contains(key)) {
        keys.push_back(std::move(key));
      }
    }
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<StageAnswer> answers(keys.size());
  for_each_index(keys.size(), [&](std::size_t i) { answers[i] = best_mix(keys[i]); });
  for (std::size_t i = 0; i < keys.size(); ++i) {
    mixes_.emplace(std::move(keys[i]), std::move(answers[i]));
  }
}

// Stages of one draft, and drafts alike, ask for the same mixes.
const StageAnswer& StageTable::mix(const StageQuestion& question, int boundary) {
  MixKey key = mix_key(question, boundary);
  const auto known = mixes_.find(key);
  if (known != mixes_.end()) {
    return known->second;
  }
  StageAnswer answer = best_mix(key);
  return mixes_.emplace(std::move(key), std::move(answer)).first->second;
}

StageAnswer StageTable::stage(const StageQuestion& question) {
  StageAnswer best;
  double least = kNever;
  for (std::size_t b = 0; b < boundaries_.size(); ++b) {
    const StageAnswer& answer = mix(question, static_cast<int>(b));
    if (answer.boundary < 0) {
      continue;
    }
    const double total = answer.cost.micro_batch_s() +
                         (answer.cost.seen_sync_s() + answer.cost.step_s) / micro_batches_;
    if (total < least) {
      least = total;
      best = answer;
    }
  }
  return best;
}

}  // namespace weft
