// Elimination with Pareto fronts: a message holds for each cell the pairs (time, memory) of the
// subtree's choices that no other choice of the cell beats in both.
//
// Without bounds fronts explode. With price p, and outside(cell) the least priced total of all that
// is not in the subtree, a label of a cell can only be part of a choice whose priced total is at
// least
//
//   time + p * memory + outside(cell).
//
// It is dropped if that is above `most_total`. Before any label is made, a whole value is dropped
// if the least priced totals of its terms are above it already. Labels have no pointers back: the
// choice is found from the root downwards by making the fronts of one cell again and looking for
// the two labels whose sum is the one wanted, to the bit.

#include "weft/solver/choice_labels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "weft/base/error.h"

namespace weft::choice {
namespace {

struct Label {
  double time = 0;
  double memory = 0;
  bool operator==(const Label&) const = default;
};

using Front = std::vector<Label>;

// Fronts of all cells of a message.
struct Fronts {
  std::vector<std::size_t> begin = {0};
  Front labels = {};
};

// What is summed for one value of a variable in one cell.
struct Terms {
  Label tables = {};
  double outside = 0;
  double least = 0;  // least priced total of a choice with this value here
  std::vector<std::span<const Label>> fronts = {};
  std::vector<double> front_least = {};                   // their least priced totals
  std::vector<std::pair<int, std::size_t>> sources = {};  // bucket and cell of each front
};

void keep_best(Front& front) {
  std::ranges::sort(front, [](const Label& a, const Label& b) {
    return a.time < b.time || (a.time == b.time && a.memory < b.memory);
  });
  std::size_t kept = 0;
  for (const Label& label : front) {
    if (kept == 0 || label.memory < front[kept - 1].memory) {
      front[kept++] = label;
    }
  }
  front.resize(kept);
}

class Search {
 public:
  Search(const Tree& tree, const LabelLimits& limits)
      : tree_(tree),
        time_(tree.laid_out(0)),
        memory_(tree.laid_out(1)),
        price_(limits.price),
        most_total_(limits.most_total - tree.base()[0] - limits.price * tree.base()[1]),
        cap_(limits.cap - tree.base()[1] + 1e-12 * std::abs(limits.cap)),
        left_(limits.most_labels),
        fronts_(tree.buckets().size()) {}

  LabelAnswer run();

 private:
  bool fill(std::size_t bucket);
  bool fill_cell(const Bucket& bucket, const OuterWalk& rows, const OuterWalk& squares, int last,
                 double outside);
  bool gather(const Bucket& bucket, const std::vector<std::size_t>& places, double outside,
              Terms& terms) const;
  bool join(const Terms& terms, std::vector<Front>& prefixes);
  void places_at(const Bucket& bucket, int value, std::vector<std::size_t>& places) const;
  Terms root_terms() const;
  void explain(const Terms& terms, const std::vector<Front>& prefixes, Label wanted);
  void decode();

  const Tree& tree_;
  std::vector<double> time_;
  std::vector<double> memory_;
  double price_;
  double most_total_;
  double cap_;
  long left_;
  std::vector<Fronts> fronts_;
  std::vector<std::size_t> places_;  // scratch, as the next three
  std::vector<Front> prefixes_;
  Terms terms_;
  Front cell_front_;
  std::vector<std::pair<std::size_t, Label>> wanted_;  // by bucket: cell and label
  std::vector<int> choice_;                            // by variable
};

// Reads all slots of one value in one cell; false if it cannot be part of a good choice. `places`
// are those of the rows, then those of the squares.
bool Search::gather(const Bucket& bucket, const std::vector<std::size_t>& places, double outside,
                    Terms& terms) const {
  terms.tables = {};
  terms.outside = terms.least = outside;
  terms.fronts.clear();
  terms.front_least.clear();
  terms.sources.clear();
  for (const std::size_t at : places) {
    terms.least += static_cast<double>(tree_.arena()[at]);
  }
  if (!(terms.least <= most_total_)) {
    return false;
  }
  for (std::size_t s = 0; s < places.size(); ++s) {
    const std::size_t rows = bucket.rows.size();
    const Slot& slot = s < rows ? bucket.rows[s] : bucket.squares[s - rows];
    if (slot.child < 0) {
      terms.tables.time += time_[places[s]];
      terms.tables.memory += memory_[places[s]];
      continue;
    }
    const Fronts& fronts = fronts_[slot.child];
    const std::size_t cell = places[s] - tree_.buckets()[slot.child].message;
    const std::size_t size = fronts.begin[cell + 1] - fronts.begin[cell];
    if (size == 0) {
      return false;
    }
    terms.fronts.emplace_back(&fronts.labels[fronts.begin[cell]], size);
    terms.front_least.push_back(static_cast<double>(tree_.arena()[places[s]]));
    terms.sources.emplace_back(slot.child, cell);
  }
  return true;
}

// prefixes[i]: the front of the tables and the first i fronts. False if out of labels.
bool Search::join(const Terms& terms, std::vector<Front>& prefixes) {
  prefixes.resize(std::max(prefixes.size(), terms.fronts.size() + 1));
  prefixes[0].assign(1, terms.tables);
  double later = terms.outside;
  for (const double least : terms.front_least) {
    later += least;
  }
  for (std::size_t i = 0; i < terms.fronts.size(); ++i) {
    later -= terms.front_least[i];
    const double most = most_total_ - later;
    Front& to = prefixes[i + 1];
    to.clear();
    for (const Label& a : prefixes[i]) {
      for (const Label& b : terms.fronts[i]) {
        const Label sum{a.time + b.time, a.memory + b.memory};
        if (sum.memory <= cap_ && sum.time + price_ * sum.memory <= most) {
          to.push_back(sum);
        }
      }
    }
    left_ -= static_cast<long>(to.size());
    if (prefixes[i].size() > 1 && terms.fronts[i].size() > 1) {
      keep_best(to);
    }
    if (left_ < 0) {
      return false;
    }
  }
  return true;
}

// The front of one cell; false if out of labels.
bool Search::fill_cell(const Bucket& bucket, const OuterWalk& rows, const OuterWalk& squares,
                       int last, double outside) {
  cell_front_.clear();
  places_.resize(bucket.rows.size() + bucket.squares.size());
  for (int v = 0; v < bucket.values; ++v) {
    for (std::size_t s = 0; s < bucket.rows.size(); ++s) {
      places_[s] = rows.at(s) + v;
    }
    for (std::size_t s = 0; s < bucket.squares.size(); ++s) {
      places_[bucket.rows.size() + s] = squares.at(s) + v * bucket.width + last;
    }
    if (!gather(bucket, places_, outside, terms_)) {
      continue;
    }
    if (!join(terms_, prefixes_)) {
      return false;
    }
    const Front& front = prefixes_[terms_.fronts.size()];
    cell_front_.insert(cell_front_.end(), front.begin(), front.end());
  }
  keep_best(cell_front_);
  return true;
}

bool Search::fill(std::size_t b) {
  const Bucket& bucket = tree_.buckets()[b];
  Fronts& fronts = fronts_[b];
  OuterWalk rows(bucket, bucket.rows);
  OuterWalk squares(bucket, bucket.squares);
  for (std::size_t cell = 0; cell < bucket.outer_cells; ++cell) {
    for (int j = 0; j < static_cast<int>(bucket.width); ++j) {
      const std::size_t at = bucket.message + cell * bucket.width + j;
      const auto outside = static_cast<double>(tree_.outside()[at]);
      const double least = outside + static_cast<double>(tree_.arena()[at]);
      if (j < bucket.last_count && least <= most_total_) {
        if (!fill_cell(bucket, rows, squares, j, outside)) {
          return false;
        }
        fronts.labels.insert(fronts.labels.end(), cell_front_.begin(), cell_front_.end());
      }
      fronts.begin.push_back(fronts.labels.size());
    }
    rows.next();
    squares.next();
  }
  left_ -= static_cast<long>(fronts.labels.size());
  return left_ >= 0;
}

Terms Search::root_terms() const {
  Terms terms;
  for (std::size_t b = 0; b < fronts_.size(); ++b) {
    if (tree_.buckets()[b].last < 0) {
      terms.fronts.emplace_back(fronts_[b].labels.data(), fronts_[b].begin[1]);
      terms.front_least.push_back(static_cast<double>(tree_.arena()[tree_.buckets()[b].message]));
      terms.sources.emplace_back(static_cast<int>(b), 0);
    }
  }
  return terms;
}

// Finds which labels of the terms' fronts make the wanted one.
void Search::explain(const Terms& terms, const std::vector<Front>& prefixes, Label wanted) {
  for (std::size_t i = terms.fronts.size(); i-- > 0;) {
    const auto found = [&] {
      for (const Label& a : prefixes[i]) {
        for (const Label& b : terms.fronts[i]) {
          if (Label{a.time + b.time, a.memory + b.memory} == wanted) {
            wanted_[terms.sources[i].first] = {terms.sources[i].second, b};
            wanted = a;
            return true;
          }
        }
      }
      return false;
    }();
    WEFT_CHECK(found);
  }
}

void Search::places_at(const Bucket& bucket, int value, std::vector<std::size_t>& places) const {
  places.clear();
  const auto place = [&](const Slot& slot) {
    std::size_t at = slot.at;
    for (std::size_t i = 0; i < bucket.outer.size(); ++i) {
      at += slot.step[i] * static_cast<std::size_t>(choice_[bucket.outer[i]]);
    }
    return at;
  };
  for (const Slot& slot : bucket.rows) {
    places.push_back(place(slot) + value);
  }
  for (const Slot& slot : bucket.squares) {
    places.push_back(place(slot) + value * bucket.width + choice_[bucket.last]);
  }
}

void Search::decode() {
  left_ = std::numeric_limits<long>::max();
  std::vector<std::size_t> places;
  std::vector<Front> prefixes;
  Terms terms;
  for (std::size_t b = fronts_.size(); b-- > 0;) {
    const Bucket& bucket = tree_.buckets()[b];
    const auto& [cell, wanted] = wanted_[b];
    const auto outside = static_cast<double>(tree_.outside()[bucket.message + cell]);
    bool found = false;
    for (int v = 0; v < bucket.values && !found; ++v) {
      places_at(bucket, v, places);
      if (!gather(bucket, places, outside, terms) || !join(terms, prefixes)) {
        continue;
      }
      const Front& front = prefixes[terms.fronts.size()];
      found = std::ranges::find(front, wanted) != front.end();
      if (found) {
        choice_[bucket.variable] = v;
        explain(terms, prefixes, wanted);
      }
    }
    WEFT_CHECK(found);
  }
}

LabelAnswer Search::run() {
  for (std::size_t b = 0; b < fronts_.size(); ++b) {
    if (!fill(b)) {
      return {.choice = {}, .complete = false};
    }
  }
  const Terms terms = root_terms();
  std::vector<Front> prefixes;
  if (!join(terms, prefixes)) {
    return {.choice = {}, .complete = false};
  }
  const Front& front = prefixes[terms.fronts.size()];
  if (front.empty()) {
    return {};
  }
  wanted_.resize(fronts_.size());
  choice_.assign(fronts_.size(), 0);
  explain(terms, prefixes, *std::ranges::min_element(front, {}, &Label::time));
  decode();
  return {.choice = choice_, .complete = true};
}

}  // namespace

LabelAnswer cheapest_by_labels(const Tree& tree, const LabelLimits& limits) {
  return Search(tree, limits).run();
}

}  // namespace weft::choice
