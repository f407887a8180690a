// The passes over a bucket tree, in float32 with four lanes along the last neighbour.
//
// Up, for every outer cell u of a bucket of v:
//
//   row(v) = sum of the slots without `last`,     M(u, j) = min over v of row(v) + sum of S(u, v,
//   j)
//
// over slots S with `last`. Down: outside(u, j) is the least total of everything that is not in the
// bucket's subtree, given its neighbours. Then
//
//   total(u, v, j) = outside(u, j) + row(v) + sum of S(u, v, j)
//
// is the least total of any choice with these three, its minimum over u and j is the min-marginal
// of v, and total - message, minimised likewise, is what a child has outside.
// An infinite total leaves everything as it is: comparisons with NaN are false.

#include <algorithm>
#include <cstring>
#include <limits>

#include "weft/solver/choice_tree.h"

namespace weft::choice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 4;

using Lanes = float __attribute__((vector_size(16)));

Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

void store(Lanes lanes, float* to) {
  std::memcpy(to, &lanes, sizeof lanes);
}

Lanes all(float value) {
  return Lanes{value, value, value, value};
}

Lanes smaller(Lanes a, Lanes b) {
  return a < b ? a : b;
}

float least_of(Lanes lanes) {
  const float left = std::min(lanes[0], lanes[1]);
  return std::min(left, std::min(lanes[2], lanes[3]));
}

// to[i] += weight * from[i]; sizes are multiples of the lanes.
void add_scaled(float weight, const float* from, std::size_t size, float* to) {
  const Lanes factor = all(weight);
  for (std::size_t i = 0; i < size; i += kLanes) {
    store(load(to + i) + factor * load(from + i), to + i);
  }
}

// M(j) = min over v of row(v) + S_1(v, j) + ... for `Blocks` blocks of lanes of j.
template <int Blocks, int Squares>
void least_columns(const float* row, int values, std::size_t width,
                   const std::vector<const float*>& squares, float* to) {
  Lanes least[Blocks];
  for (int b = 0; b < Blocks; ++b) {
    least[b] = all(kInfinity);
  }
  const float* first = squares[0];
  const float* second = Squares > 1 ? squares[1] : first;
  for (int v = 0; v < values; ++v) {
    const Lanes start = all(row[v]);
    const std::size_t at = static_cast<std::size_t>(v) * width;
    for (int b = 0; b < Blocks; ++b) {
      Lanes sum = start + load(first + at + b * kLanes);
      if constexpr (Squares > 1) {
        sum += load(second + at + b * kLanes);
      }
      for (std::size_t s = 2; Squares > 2 && s < squares.size(); ++s) {
        sum += load(squares[s] + at + b * kLanes);
      }
      least[b] = smaller(sum, least[b]);
    }
  }
  for (int b = 0; b < Blocks; ++b) {
    store(least[b], to + b * kLanes);
  }
}

template <int Squares>
void least_over_values(const float* row, int values, std::size_t width,
                       std::vector<const float*>& squares, float* to) {
  const auto advance = [&](std::size_t by) {
    std::ranges::for_each(squares, [&](const float*& square) { square += by; });
    to += by;
  };
  std::size_t left = width / kLanes;
  for (; left >= 4; left -= 4, advance(4 * kLanes)) {
    least_columns<4, Squares>(row, values, width, squares, to);
  }
  for (; left >= 2; left -= 2, advance(2 * kLanes)) {
    least_columns<2, Squares>(row, values, width, squares, to);
  }
  if (left == 1) {
    least_columns<1, Squares>(row, values, width, squares, to);
  }
}

void least_over_values(const float* row, const Bucket& bucket, std::vector<const float*>& squares,
                       float* to) {
  if (squares.size() == 1) {
    least_over_values<1>(row, bucket.values, bucket.width, squares, to);
  } else if (squares.size() == 2) {
    least_over_values<2>(row, bucket.values, bucket.width, squares, to);
  } else {
    least_over_values<3>(row, bucket.values, bucket.width, squares, to);
  }
}

}  // namespace

OuterWalk::OuterWalk(const Bucket& bucket, const std::vector<Slot>& slots)
    : bucket_(bucket), slots_(slots), values_(bucket.outer.size(), 0) {
  for (const Slot& slot : slots) {
    at_.push_back(slot.at);
  }
}

void OuterWalk::next() {
  for (std::size_t i = values_.size(); i-- > 0;) {
    const bool done = ++values_[i] < bucket_.counts[i];
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      at_[s] += slots_[s].step[i];
      at_[s] -= done ? 0 : slots_[s].step[i] * static_cast<std::size_t>(bucket_.counts[i]);
    }
    if (done) {
      return;
    }
    values_[i] = 0;
  }
}

void Tree::weigh(std::span<const double> weights, std::span<const double> limit,
                 std::span<const std::pair<int, int>> fixed) {
  fixed_.assign(fixed.begin(), fixed.end());
  std::ranges::fill(time_, 0.0F);
  std::ranges::fill(memory_, 0.0F);
  for (const Table& table : tables_) {
    const std::size_t size = static_cast<std::size_t>(table.rows) * table.width;
    for (const auto& [k, at] : table.kinds) {
      if (weights[k] != 0) {
        add_scaled(static_cast<float>(weights[k]), &kinds_[at], size, &time_[table.at]);
      }
      if (!limit.empty() && limit[k] != 0) {
        add_scaled(static_cast<float>(limit[k]), &kinds_[at], size, &memory_[table.at]);
      }
    }
  }
  weighted_base_ = limit_base_ = 0;
  for (std::size_t k = 0; k < base_.size(); ++k) {
    weighted_base_ += weights[k] * base_[k];
    limit_base_ += limit.empty() ? 0.0 : limit[k] * base_[k];
  }
}

double Tree::up(double time, double memory) {
  const Lanes a = all(static_cast<float>(time));
  const Lanes b = all(static_cast<float>(memory));
  for (std::size_t i = 0; i < table_cells_; i += kLanes) {
    store(a * load(&time_[i]) + b * load(&memory_[i]), &arena_[i]);
  }
  for (const Table& table : tables_) {
    const std::size_t size = static_cast<std::size_t>(table.rows) * table.width;
    for (std::size_t i = 0; table.forbids && i < size; ++i) {
      if (kinds_[table.forbidden + i] != 0) {
        arena_[table.at + i] = kInfinity;
      }
    }
  }
  for (const auto& [variable, place] : fixed_) {
    const Table& table = tables_[variable];
    const float cost = arena_[table.at + place];
    std::fill_n(arena_.begin() + static_cast<std::ptrdiff_t>(table.at), table.columns, kInfinity);
    arena_[table.at + place] = cost;
  }
  priced_base_ = time * weighted_base_ + memory * limit_base_;
  double total = priced_base_;
  for (const Bucket& bucket : buckets_) {
    bucket_up(bucket);
    total += bucket.last < 0 ? static_cast<double>(arena_[bucket.message]) : 0.0;
  }
  return total;
}

void Tree::bucket_up(const Bucket& bucket) {
  const auto values = static_cast<std::size_t>(bucket.values);
  const std::size_t row_width = (values + kLanes - 1) / kLanes * kLanes;
  row_.assign(2 * row_width, 0.0F);
  float* still_row = row_.data();
  float* row = still_row + row_width;
  for (std::size_t s = 0; s < bucket.still_rows; ++s) {
    add_scaled(1.0F, &arena_[bucket.rows[s].at], row_width, still_row);
  }
  if (bucket.last < 0) {
    arena_[bucket.message] = *std::min_element(still_row, still_row + values);
    return;
  }
  const float* still = nullptr;  // the sum of the squares that stay the same
  if (bucket.still_squares > 0) {
    still = &arena_[bucket.squares[0].at];
  }
  if (bucket.still_squares > 1) {
    const std::size_t cells = values * bucket.width;
    scratch_.assign(still, still + cells);
    for (std::size_t s = 1; s < bucket.still_squares; ++s) {
      add_scaled(1.0F, &arena_[bucket.squares[s].at], cells, scratch_.data());
    }
    still = scratch_.data();
  }
  OuterWalk rows(bucket, bucket.rows);
  OuterWalk walk(bucket, bucket.squares);
  std::vector<const float*> squares;
  float* to = &arena_[bucket.message];
  for (std::size_t cell = 0; cell < bucket.outer_cells; ++cell, to += bucket.width) {
    std::copy(still_row, still_row + row_width, row);
    for (std::size_t s = bucket.still_rows; s < bucket.rows.size(); ++s) {
      add_scaled(1.0F, &arena_[rows.at(s)], row_width, row);
    }
    squares.assign(bucket.still_squares > 0 ? 1 : 0, still);
    for (std::size_t s = bucket.still_squares; s < bucket.squares.size(); ++s) {
      squares.push_back(&arena_[walk.at(s)]);
    }
    least_over_values(row, bucket, squares, to);
    rows.next();
    walk.next();
  }
}

std::vector<int> Tree::decode() const {
  std::vector<int> choice(core_->nodes.size(), 0);
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    const Bucket& bucket = buckets_[b];
    const auto place = [&](const Slot& slot) {
      std::size_t at = slot.at;
      for (std::size_t i = 0; i < bucket.outer.size(); ++i) {
        at += slot.step[i] * static_cast<std::size_t>(choice[bucket.outer[i]]);
      }
      return at;
    };
    float least = kInfinity;
    for (int v = 0; v < bucket.values; ++v) {
      float sum = 0;
      for (const Slot& slot : bucket.rows) {
        sum += arena_[place(slot) + v];
      }
      for (const Slot& slot : bucket.squares) {
        sum += arena_[place(slot) + v * bucket.width + choice[bucket.last]];
      }
      choice[bucket.variable] = sum < least ? v : choice[bucket.variable];
      least = std::min(least, sum);
    }
  }
  return choice;
}

std::vector<double> Tree::root_table() const {
  double base = priced_base_;
  for (const Bucket& bucket : buckets_) {
    base += bucket.last < 0 ? static_cast<double>(arena_[bucket.message]) : 0.0;
  }
  const int rows = core_->count(roots_[0]);
  const int columns = core_->count(roots_[1]);
  std::vector<double> result(static_cast<std::size_t>(rows) * columns, base);
  for (const Slot& slot : root_slots_) {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        result[static_cast<std::size_t>(r) * columns + c] +=
            static_cast<double>(arena_[slot.at + r * slot.step[0] + c * slot.step[1]]);
      }
    }
  }
  return result;
}

std::vector<std::vector<float>> Tree::down() {
  std::vector<std::vector<float>> least(core_->nodes.size());
  for (const Bucket& bucket : buckets_) {
    least[bucket.variable].assign(static_cast<std::size_t>(bucket.values), kInfinity);
  }
  outside_.assign(arena_size_, kInfinity);
  double total = 0;
  for (const Bucket& bucket : buckets_) {
    total += bucket.last < 0 ? static_cast<double>(arena_[bucket.message]) : 0.0;
  }
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    if (buckets_[b].last < 0) {
      outside_[buckets_[b].message] =
          static_cast<float>(total - static_cast<double>(arena_[buckets_[b].message]));
    }
    bucket_down(buckets_[b], least[buckets_[b].variable]);
  }
  return least;
}

// Least total of one value in one outer cell; lowers what the children with `last` have outside.
float Tree::value_down(const Bucket& bucket, const OuterWalk& squares, int value, float row,
                       std::size_t outside) {
  Lanes least = all(kInfinity);
  const std::size_t width = std::max(bucket.width, kLanes);
  for (std::size_t j = 0; j < width; j += kLanes) {
    Lanes sum = load(&outside_[outside + j]) + all(row);
    const std::size_t cell = static_cast<std::size_t>(value) * bucket.width + j;
    for (std::size_t s = 0; s < bucket.squares.size(); ++s) {
      sum += load(&arena_[squares.at(s) + cell]);
    }
    for (std::size_t s = 0; s < bucket.squares.size(); ++s) {
      if (bucket.squares[s].child >= 0) {
        const std::size_t at = squares.at(s) + cell;
        store(smaller(sum - load(&arena_[at]), load(&outside_[at])), &outside_[at]);
      }
    }
    least = smaller(sum, least);
  }
  return least_of(least);
}

void Tree::bucket_down(const Bucket& bucket, std::vector<float>& least) {
  OuterWalk rows(bucket, bucket.rows);
  OuterWalk squares(bucket, bucket.squares);
  for (std::size_t cell = 0; cell < bucket.outer_cells; ++cell) {
    for (int v = 0; v < bucket.values; ++v) {
      float row = 0;
      for (std::size_t s = 0; s < bucket.rows.size(); ++s) {
        row += arena_[rows.at(s) + v];
      }
      const float value = value_down(bucket, squares, v, row, bucket.message + cell * bucket.width);
      least[v] = std::min(least[v], value);
      for (std::size_t s = 0; s < bucket.rows.size(); ++s) {
        if (bucket.rows[s].child >= 0) {
          float& outside = outside_[rows.at(s) + v];
          const float rest = value - arena_[rows.at(s) + v];
          outside = rest < outside ? rest : outside;
        }
      }
    }
    rows.next();
    squares.next();
  }
}

}  // namespace weft::choice
