#include "weft/search/stage_table.h"

#include <algorithm>
#include <array>
#include <limits>

#include "weft/search/seen_shares.h"

// For each class of layers a menu of ways: the block's problem solved at several prices of a byte,
// with and without recomputation. A way has, of a micro-batch in a step of m of them,
//
//   time   t = f (1 + r) + b + w + kSeenBeside * beside + (seen sync + step) / m
//   memory M = state + k (entered + (1 - r) saved),  k micro-batches in flight
//
// with f, b, w forward, backward and weight gradients, waiting included, and r = 1 if it is
// recomputed. All layers of a stage meet at boundaries that lie alike, so ways of different layers
// are free of each other. What a stage makes of the menus stands in stage_answers.cpp.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Of the unit price.
constexpr std::array kMenuPrices = {0.03, 0.1, 0.3, 1.0, 3.0, 10.0};
constexpr std::array kMenuInFlight = {1.0, 4.0, 16.0};

double kept_bytes(const LayerWay& way) {
  return way.cost[kEntered] + (way.recompute ? 0 : way.cost[kSaved]);
}

}  // namespace

double way_bytes(const LayerWay& way, int in_flight) {
  return way.cost[kState] + in_flight * kept_bytes(way);
}

int boundary_value(const BlockProblem::Boundary& boundary, Placements wanted) {
  for (;;) {
    const auto found = std::ranges::find(boundary.lies, wanted);
    if (found != boundary.lies.end()) {
      return static_cast<int>(found - boundary.lies.begin());
    }
    bool changed = false;
    for (std::size_t a = wanted.size(); a-- > 0 && !changed;) {
      const Placement& known = boundary.lies.front()[a];
      if (wanted[a].kind == Placement::Kind::shard && wanted[a].dim == 0 &&
          known.kind == Placement::Kind::shard && known.dim == 0 && !(wanted[a] == known)) {
        wanted[a] = known;  // the batch in another unit
        changed = true;
      } else if (wanted[a].kind == Placement::Kind::shard && !(wanted[a] == known)) {
        wanted[a] = replicate();
        changed = true;
      }
    }
    if (!changed) {
      return 0;
    }
  }
}

double StageCost::micro_batch_s() const {
  const double kernels_s = forward_s + backward_s + weight_s;
  return wait_s > 0 ? kernels_s + kSeenAmong * beside_s
                    : std::max(kernels_s + kSeenBeside * beside_s, beside_s);
}

double StageCost::seen_sync_s() const {
  return (wait_s > 0 ? 1 : kSeenSync) * sync_s;
}

void add_way(const LayerWay& way, StageCost& cost) {
  const double forward_s = way.cost[kForward] + way.cost[kForwardWait];
  cost.forward_s += forward_s;
  cost.backward_s +=
      way.cost[kBackward] + way.cost[kBackwardWait] + (way.recompute ? forward_s : 0);
  cost.weight_s += way.cost[kWeight];
  cost.wait_s += way.cost[kForwardWait] * (way.recompute ? 2 : 1) + way.cost[kBackwardWait];
  cost.beside_s += way.cost[kBeside];
  cost.sync_s += way.cost[kSync];
  cost.step_s += way.cost[kStep];
  cost.state_bytes += way.cost[kState];
  cost.kept_bytes += kept_bytes(way);
  cost.working_bytes = std::max(cost.working_bytes, way.working_bytes);
}

StageTable::StageTable(BlockModel& model, BlockPlace place, int micro_batches)
    : model_(model), place_(std::move(place)), micro_batches_(micro_batches) {
  place_shared();
  const auto classes = static_cast<int>(model_.chain.classes.size());
  BlockPlace own = place_;
  own.lent.clear();
  for (int c = 0; c < classes; ++c) {
    make_block(c, own);
    lent_blocks_.push_back(c);
  }
  BlockPlace lent = place_;
  lent.held.clear();
  for (int c = 0; c < classes && !place_.lent.empty(); ++c) {
    const auto layer = std::ranges::find(model_.chain.class_of, c) - model_.chain.class_of.begin();
    const bool borrows =
        std::ranges::any_of(model_.chain.classes[c].nodes, [&](const BlockNode& node) {
          return std::ranges::any_of(node.parameters, [&](ValueId v) {
            const auto shared = std::ranges::find(model_.chain.shared, v);
            return shared != model_.chain.shared.end() &&
                   model_.chain.shared_first[shared - model_.chain.shared.begin()] < layer;
          });
        });
    if (borrows) {
      lent_blocks_[c] = static_cast<int>(blocks_.size());
      make_block(c, lent);
    }
  }
  count_layers();
  layers_of_.assign(model_.chain.classes.size(), 0);
  for (const int c : model_.chain.class_of) {
    ++layers_of_[c];
  }
  choose_boundary(0);
}

// Shared parameters lie in a way that all layers can use: split by rows along as many axes as
// possible, as vocabularies are.
void StageTable::place_shared() {
  for (std::size_t i = 0; i < model_.chain.shared.size(); ++i) {
    const ValueId v = model_.chain.shared[i];
    std::vector<Placements> common;
    std::vector<int> seen;
    for (std::size_t l = 0; l < model_.chain.layers.size(); ++l) {
      const int c = model_.chain.class_of[l];
      if (std::ranges::find(seen, c) != seen.end()) {
        continue;
      }
      seen.push_back(c);
      const auto& options = model_.options.options(c, place_.mesh, place_.data_axes);
      const auto& weights = model_.options.weights(c);
      for (std::size_t n = 0; n < options.size(); ++n) {
        for (const WeightTerm& term : weights[n]) {
          if (term.parameter != v) {
            continue;
          }
          std::vector<Placements> here;
          for (const NodeOption& option : options[n]) {
            here.push_back(option.placed.inputs[term.input]);
          }
          if (common.empty()) {
            common = here;
          }
          std::erase_if(common, [&](const Placements& p) {
            return std::ranges::find(here, p) == here.end();
          });
        }
      }
    }
    if (common.empty()) {
      continue;
    }
    Placements best = common.front();
    int most = -1;
    for (const Placements& p : common) {
      const auto split = static_cast<int>(std::ranges::count_if(p, [](const Placement& placement) {
        return placement.kind == Placement::Kind::shard && placement.dim == 0;
      }));
      const bool other = std::ranges::any_of(p, [](const Placement& placement) {
        return placement.kind == Placement::Kind::shard && placement.dim != 0;
      });
      if (!other && split > most) {
        most = split;
        best = p;
      }
    }
    place_.lent[v] = best;
    place_.held[v] = best;
  }
}

void StageTable::make_block(int block_class, const BlockPlace& place) {
  Block block;
  block.block_class = block_class;
  block.problem = block_problem(model_.chain, block_class, place, model_.training, model_.ops,
                                model_.cost, model_.options, model_.conversions);
  std::vector<int> keep;
  for (const int boundary : {block.problem.entry.variable, block.problem.exit.variable}) {
    if (boundary >= 0) {
      keep.push_back(boundary);
    }
  }
  block.solver = std::make_unique<ChoiceSolver>(block.problem.choices, keep);
  blocks_.push_back(std::move(block));
}

bool StageTable::is_lent(int first) const {
  return !model_.chain.shared.empty() && first <= model_.chain.shared_first.front();
}

int StageTable::block_of(int layer, bool lent) const {
  const int c = model_.chain.class_of[layer];
  return lent ? lent_blocks_[c] : c;
}

StageTable::Fixed StageTable::fixed_at(const Block& block, const Placements& boundary) const {
  Fixed fixed;
  for (const BlockProblem::Boundary* end : {&block.problem.entry, &block.problem.exit}) {
    if (end->variable >= 0) {
      fixed.emplace_back(end->variable, boundary_value(*end, boundary));
    }
  }
  return fixed;
}

std::vector<double> StageTable::weights(bool recompute, double price, double in_flight) const {
  std::vector<double> weights(kCostKinds, 0);
  for (const CostKind kind : {kForward, kForwardWait, kBackward, kBackwardWait, kWeight}) {
    weights[kind] = 1;
  }
  if (recompute) {
    weights[kForward] = weights[kForwardWait] = 2;
  }
  const bool waits = static_cast<int>(place_.mesh.axes.size()) > place_.data_axes;
  weights[kBeside] = waits ? kSeenAmong : kSeenBeside;
  weights[kSync] = (waits ? 1 : kSeenSync) / micro_batches_;
  weights[kStep] = 1.0 / micro_batches_;
  weights[kState] = price;
  weights[kEntered] = price * in_flight;
  weights[kSaved] = recompute ? 0 : price * in_flight;
  return weights;
}

// The boundary that is best for the whole model at a price.
void StageTable::choose_boundary(double share) {
  std::vector<Placements> all;
  for (const Block& block : blocks_) {
    if (block.problem.entry.variable >= 0 && block.problem.entry.lies.size() > all.size()) {
      all = block.problem.entry.lies;
    }
  }
  if (all.empty()) {
    all = {Placements(place_.mesh.axes.size())};
  }
  const std::vector<double> w = weights(false, share * price_unit_, 2);
  std::size_t best = 0;
  double least = kNever;
  double bytes = 0;
  for (std::size_t p = 0; p < all.size(); ++p) {
    double total = 0;
    double memory = 0;
    for (std::size_t c = 0; c < layers_of_.size() && total < least; ++c) {
      const ChoiceAnswer answer = blocks_[c].solver->cheapest(w, fixed_at(blocks_[c], all[p]));
      if (answer.choice.empty()) {
        total = kNever;
        break;
      }
      total += layers_of_[c] * answer.total;
      memory += layers_of_[c] * (answer.cost[kState] + answer.cost[kSaved] + answer.cost[kEntered]);
    }
    if (total < least) {
      least = total;
      best = p;
      bytes = memory;
    }
  }
  if (share == 0) {
    least_s_ = least;
    price_unit_ = least / std::max(bytes, 1.0);
  }
  if (least < kNever && std::ranges::find(boundaries_, all[best]) == boundaries_.end()) {
    boundaries_.push_back(all[best]);
  }
}

LayerWay StageTable::make_way(const Block& block, const ChoiceAnswer& answer,
                              bool recompute) const {
  LayerWay way;
  way.cost = answer.cost;
  way.choice = answer.choice;
  way.recompute = recompute;
  const std::vector<double> at_no_price = weights(recompute, 0, 0);
  for (int kind = 0; kind < kCostKinds; ++kind) {
    way.seconds += at_no_price[kind] * way.cost[kind];
  }
  for (std::size_t n = 0; n < block.problem.working_bytes.size(); ++n) {
    way.working_bytes =
        std::max(way.working_bytes, block.problem.working_bytes[n][answer.choice[n]]);
  }
  way.working_bytes += recompute ? answer.cost[kSaved] : 0;
  // zero3 gathers a layer while another one runs, and so do gradients that do not follow.
  for (std::size_t n = 0; n < block.problem.weights.size(); ++n) {
    const BlockProblem::Weights& weights = block.problem.weights[n];
    if (weights.variable >= 0) {
      const auto* own = weights.own_of(answer.choice[n], answer.choice[weights.variable]);
      way.working_bytes += own != nullptr ? own->bytes : 0;
      const std::vector<WeightMode>& modes = weights.modes[answer.choice[weights.variable]];
      for (std::size_t a = 0; a < modes.size(); ++a) {
        if (modes[a] == WeightMode::zero3) {
          way.working_bytes += answer.cost[kState] / 8;
        }
      }
    }
  }
  return way;
}

void StageTable::fill_menu(Block& block, int boundary, bool repeated) const {
  std::vector<LayerWay> menu;
  const Fixed fixed = fixed_at(block, boundaries_[boundary]);
  const auto add = [&](bool recompute, double price, double in_flight) {
    const ChoiceAnswer answer = block.solver->cheapest(weights(recompute, price, in_flight), fixed);
    const bool known = std::ranges::any_of(menu, [&](const LayerWay& way) {
      return way.recompute == recompute && way.choice == answer.choice;
    });
    if (!answer.choice.empty() && !known) {
      menu.push_back(make_way(block, answer, recompute));
    }
  };
  for (const bool recompute : {false, true}) {
    const std::optional<bool>& pinned = model_.chain.pinned[block.block_class].recompute;
    const bool may = repeated ? (recompute ? may_recompute : may_keep) : !recompute;
    if (pinned ? recompute != *pinned : !may) {
      continue;
    }
    add(recompute, 0, 0);
    for (const double price : kMenuPrices) {
      for (const double in_flight : kMenuInFlight) {
        add(recompute, price * price_unit_, in_flight);
      }
    }
  }
  block.menus.push_back(std::move(menu));
}

double StageTable::least_seconds(int first, int end) {
  if (least_sums_.empty()) {
    const std::vector<double> w = weights(false, 0, 0);
    std::vector<double> least;
    for (const Block& block : blocks_) {
      least.push_back(block.solver->cheapest(w).total);
    }
    least_sums_.push_back(0);
    for (std::size_t l = 0; l < model_.chain.layers.size(); ++l) {
      const int layer = static_cast<int>(l);
      least_sums_.push_back(least_sums_.back() +
                            std::min(least[block_of(layer, false)], least[block_of(layer, true)]));
    }
  }
  return least_sums_[end] - least_sums_[first];
}

void StageTable::find_menus() {
  if (has_menus_) {
    return;
  }
  has_menus_ = true;
  choose_boundary(0.3);
  choose_boundary(3);
  for (Block& block : blocks_) {
    const auto layer =
        std::ranges::find(model_.chain.class_of, block.block_class) - model_.chain.class_of.begin();
    for (std::size_t b = 0; b < boundaries_.size(); ++b) {
      fill_menu(block, static_cast<int>(b), model_.chain.repeated_layer[layer]);
    }
  }
}

void StageTable::count_layers() {
  for (const bool lent : {false, true}) {
    std::vector<std::vector<int>>& before = layers_before_[lent ? 1 : 0];
    before.emplace_back(blocks_.size(), 0);
    for (std::size_t l = 0; l < model_.chain.layers.size(); ++l) {
      before.push_back(before.back());
      ++before.back()[block_of(static_cast<int>(l), lent)];
    }
  }
}

const BlockProblem& StageTable::problem(int layer, int first) const {
  return blocks_[block_of(layer, is_lent(first))].problem;
}

const LayerWay& StageTable::way(int layer, int first, int boundary, int number) const {
  return blocks_[block_of(layer, is_lent(first))].menus[boundary][number];
}

LayerWay StageTable::way_of(int layer, int first, std::vector<int> choice, bool recompute) const {
  const Block& block = blocks_[block_of(layer, is_lent(first))];
  ChoiceAnswer answer;
  answer.cost = choice_cost(block.problem.choices, choice);
  answer.choice = std::move(choice);
  return make_way(block, answer, recompute);
}

}  // namespace weft
