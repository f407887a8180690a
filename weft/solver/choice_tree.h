#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "weft/solver/choice_core.h"

namespace weft::choice {

/// Trees with a wider bucket than this, or with four times as many cells in all, are not filled.
inline constexpr double kMostCells = 1 << 24;

/// A table or a message as a bucket reads it.
struct Slot {
  std::size_t at = 0;                  // where it begins in the arena
  std::vector<std::size_t> step = {};  // by outer variable; 0: it does not depend on it
  int child = -1;                      // the bucket whose message it is; -1: a table
};

/// What the elimination of one variable v reads and writes. Its neighbours at that time are the
/// outer ones and the last one; the message is [outer cell][value of last], padded.
struct Bucket {
  int variable = 0;
  int values = 0;
  std::vector<int> outer = {};
  std::vector<int> counts = {};  // values of the outer ones
  int last = -1;                 // -1: v has no neighbours left
  int last_count = 1;
  std::size_t width = 1;           // last_count, padded
  std::size_t outer_cells = 1;     // product of counts
  std::size_t message = 0;         // where it begins in the arena
  std::vector<Slot> rows = {};     // [..., value of v]; first those that no outer one changes
  std::vector<Slot> squares = {};  // [..., value of v][value of last]; likewise
  std::size_t still_rows = 0;      // how many no outer one changes
  std::size_t still_squares = 0;
};

/// Goes through the outer cells of a bucket and keeps where each slot stands.
class OuterWalk {
 public:
  OuterWalk(const Bucket& bucket, const std::vector<Slot>& slots);
  [[nodiscard]] std::size_t at(std::size_t slot) const { return at_[slot]; }
  [[nodiscard]] const std::vector<int>& values() const { return values_; }
  void next();

 private:
  const Bucket& bucket_;
  const std::vector<Slot>& slots_;
  std::vector<int> values_;
  std::vector<std::size_t> at_;
};

/// Bucket elimination of all variables but the two roots (or of all), in float32 and for any
/// weights. Costs are stored above the least of their table; what that takes away is `base`.
class Tree {
 public:
  /// `roots`: none, or two variables.
  Tree(const Core& core, const std::vector<int>& roots);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  [[nodiscard]] bool too_wide() const { return largest_ > kMostCells || cells_ > 4 * kMostCells; }

  /// Makes the numeric tables. Call it once, if the tree is not too wide.
  void fill();

  /// Sets the costs that price() mixes. `fixed`: variables and places of the values they must take.
  void weigh(std::span<const double> weights, std::span<const double> limit,
             std::span<const std::pair<int, int>> fixed);
  /// Solves for time * weights + memory * limit; the least total, without forbidden ones.
  double up(double time, double memory);
  /// After up() without roots: a best choice, by places of values.
  [[nodiscard]] std::vector<int> decode() const;
  /// After up() with roots: the least total for each pair of values.
  [[nodiscard]] std::vector<double> root_table() const;
  /// After up() without roots: for each value, the least total of a choice that has it. Also fills
  /// outside().
  [[nodiscard]] std::vector<std::vector<float>> down();

  /// Tables and messages as priced, and for each message's cell what the rest costs at least.
  [[nodiscard]] const std::vector<float>& arena() const { return arena_; }
  [[nodiscard]] const std::vector<float>& outside() const { return outside_; }
  /// What all choices cost at least, by kind, and is in no table.
  [[nodiscard]] const std::vector<double>& base() const { return base_; }
  /// The same at the weights and prices of up().
  [[nodiscard]] double priced_base() const { return priced_base_; }
  /// Costs of one kind above that, at the places of the arena.
  [[nodiscard]] std::vector<double> laid_out(int kind) const;

 private:
  // A cost table of the core, and how it lies in the arena: [value of row][value of column].
  struct Table {
    const Costs* costs = nullptr;
    int rows = 1;
    int columns = 1;
    bool turned = false;  // the core has it the other way
    std::size_t width = 0;
    std::size_t at = 0;
    std::vector<std::pair<int, std::size_t>> kinds = {};  // which are not zero, and where
    std::size_t forbidden = 0;                            // where, if `forbids`
    bool forbids = false;
  };

  void order(const std::vector<int>& roots);
  void place_scopes(const std::vector<std::vector<int>>& scopes);
  void place_tables();
  void place_table(const Costs& costs, const std::vector<int>& variables);
  void place_messages();
  void sort_slots();
  void fill_table(Table& table);
  [[nodiscard]] std::vector<int> sequence(int bucket) const;
  void bucket_up(const Bucket& bucket);
  void bucket_down(const Bucket& bucket, std::vector<float>& least);
  float value_down(const Bucket& bucket, const OuterWalk& squares, int value, float row,
                   std::size_t outside);
  [[nodiscard]] int bucket_of(const std::vector<int>& variables) const;

  const Core* core_;
  std::vector<int> roots_;
  std::vector<Bucket> buckets_;   // in order of elimination
  std::vector<int> position_;     // by variable: its bucket; roots: after all
  std::vector<Slot> root_slots_;  // steps: first root, second root
  std::vector<Table> tables_;     // nodes, then pairs
  std::size_t table_cells_ = 0;   // tables fill the arena up to here
  std::size_t arena_size_ = 0;
  double largest_ = 0;  // cells of the widest bucket
  double cells_ = 0;    // of all

  std::vector<double> base_;
  std::vector<float> kinds_;
  std::vector<std::pair<int, int>> fixed_;
  std::vector<float> time_;
  std::vector<float> memory_;
  std::vector<float> arena_;
  std::vector<float> outside_;
  std::vector<float> row_;
  std::vector<float> scratch_;
  double weighted_base_ = 0;
  double limit_base_ = 0;
  double priced_base_ = 0;
};

}  // namespace weft::choice
