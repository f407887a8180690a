#include "weft/sharding/propagate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "weft/base/error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorType tensor(Shape shape) {
  return {.shape = std::move(shape), .dtype = DType::f32};
}

Mesh mesh_of(std::vector<Axis> axes) {
  Mesh mesh{.devices = {}, .axes = std::move(axes)};
  int count = 1;
  for (const Axis& axis : mesh.axes) {
    count *= axis.size;
  }
  for (int i = 0; i < count; ++i) {
    mesh.devices.push_back(i);
  }
  return mesh;
}

std::vector<std::string> texts(const std::vector<Placements>& list) {
  std::vector<std::string> result;
  for (const Placements& placements : list) {
    result.push_back(format_placements(placements));
  }
  return result;
}

Factors linear() {
  return lay_out({.dims = "b s k, n k -> b s n", .linear = {{0}, {1}}},
                 {tensor({kBatch, 16, 8}), tensor({12, 8})}, {tensor({kBatch, 16, 12})});
}

TEST(PlaceNode, TheKnownParallelisms) {
  const Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  const auto placed = [&](const Split& dp, const Split& tp) {
    NodePlacement result = place_node(linear(), mesh, {dp, tp}, "q");
    result.inputs.insert(result.inputs.end(), result.outputs.begin(), result.outputs.end());
    return texts(result.inputs);
  };
  const Split none;
  EXPECT_THAT(placed(none, none), ElementsAre("R R", "R R", "R R"));
  EXPECT_THAT(placed(split_factor('b'), split_factor('n')), ElementsAre("S0 R", "R S0", "S0 S2"));
  EXPECT_THAT(placed(split_factor('b'), split_factor('k')), ElementsAre("S0 S2", "R S1", "S0 P"));
  EXPECT_THAT(placed(split_factor('n'), split_factor('n')), ElementsAre("R R", "S0 S0", "S2 S2"));
  EXPECT_THAT(placed(none, {.kind = Split::Kind::linear, .linear_set = 0}),
              ElementsAre("R P", "R R", "R P"));
}

TEST(PlaceNode, AnOutputWithoutTheLetterIsAPartialSum) {
  const Factors f = lay_out({.dims = "b s v, b s, -> , b s", .whole = "v"},
                            {tensor({kBatch, 4, 9}), tensor({kBatch, 4}), tensor({})},
                            {tensor({}), tensor({kBatch, 4})});
  const NodePlacement placed = place_node(f, mesh_of({{"dp", 2}}), {split_factor('b')}, "loss");
  EXPECT_THAT(texts(placed.inputs), ElementsAre("S0", "S0", "R"));
  EXPECT_THAT(texts(placed.outputs), ElementsAre("P", "S0"));
}

Factors attention(int keys) {
  return lay_out(
      {.dims = "b s h d, b t h d, b t h d -> b s h d, b h s", .whole = "td", .ring = "st"},
      {tensor({kBatch, 16, 4, 8}), tensor({kBatch, keys, 4, 8}), tensor({kBatch, keys, 4, 8})},
      {tensor({kBatch, 16, 4, 8}), tensor({kBatch, 4, 16})});
}

TEST(PlaceNode, ARingSplitsBothItsFactors) {
  const Mesh mesh = mesh_of({{"cp", 3}});
  Split ring = split_factor('s');
  ring.ring = true;
  ring.ratios = {2, 1, 1};
  const NodePlacement placed = place_node(attention(16), mesh, {ring}, "attn");
  EXPECT_THAT(texts(placed.inputs), ElementsAre("S1:2:1:1", "S1:2:1:1", "S1:2:1:1"));
  EXPECT_THAT(texts(placed.outputs), ElementsAre("S1:2:1:1", "S2:2:1:1"));
  ring.ratios.clear();
  EXPECT_THROW(static_cast<void>(place_node(attention(12), mesh, {ring}, "attn")), Error);
  ring.letter = 'h';
  EXPECT_THROW(static_cast<void>(place_node(attention(16), mesh, {ring}, "attn")), Error);
  ring.letter = 's';
  EXPECT_THROW(static_cast<void>(place_node(linear(), mesh, {ring}, "q")), Error);
}

TEST(PlaceNode, BatchPartsAreWholeSamples) {
  const Mesh mesh = mesh_of({{"dp", 2}});
  const Factors reshape = lay_out({.dims = "b s h -> (b s) h"}, {tensor({kBatch, 16, 8})},
                                  {tensor({Dim(16, true), 8})});
  const NodePlacement placed = place_node(reshape, mesh, {split_factor('b')}, "flat");
  EXPECT_THAT(texts(placed.inputs), ElementsAre("S0"));
  EXPECT_THAT(texts(placed.outputs), ElementsAre("S0/16"));
  // An op on the flat tensor cuts it alike.
  const Factors gelu =
      lay_out({.dims = "b h -> b h"}, {tensor({Dim(16, true), 8})}, {tensor({Dim(16, true), 8})});
  EXPECT_THAT(texts(place_node(gelu, mesh, {split_factor('b')}, "gelu").inputs),
              ElementsAre("S0/16"));
}

TEST(PlaceNode, MistakesAreNamed) {
  const Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  const auto error_of = [&](const Factors& factors, const Splits& splits) -> std::string {
    try {
      static_cast<void>(place_node(factors, mesh, splits, "h.0/q"));
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of(linear(), {{}, split_factor('x')}),
              AllOf(HasSubstr("h.0/q"), HasSubstr("axis tp"), HasSubstr("b s k n")));
  EXPECT_THAT(error_of(linear(), {split_factor('k'), split_factor('n')}), "no error");
  EXPECT_THAT(error_of(linear(), {split_factor('s'), split_factor('s')}), "no error");
  const Split set{.kind = Split::Kind::linear, .linear_set = 2};
  EXPECT_THAT(error_of(linear(), {{}, set}), HasSubstr("+2"));
  const Factors norm =
      lay_out({.dims = "b h -> b h", .whole = "h"}, {tensor({kBatch, 8})}, {tensor({kBatch, 8})});
  EXPECT_THAT(error_of(norm, {{}, split_factor('h')}), HasSubstr("whole"));
  const Factors small = lay_out({.dims = "n -> n"}, {tensor({7})}, {tensor({7})});
  EXPECT_THAT(error_of(small, {{}, split_factor('n')}), "no error");
  EXPECT_THAT(error_of(small, {split_factor('n'), split_factor('n')}), "no error");
  Split three = split_factor('n');
  three.ratios = {1, 2, 3};
  EXPECT_THAT(error_of(small, {three, {}}), HasSubstr("3 ratios"));
}

// Queries of 6 heads with 4 features on 4 devices: whole heads, whatever the operand.
TEST(PlaceNode, UnequalPartsAreWholeItems) {
  const Mesh tp{.devices = {0, 1, 2, 3}, .axes = {{"tp", 4}}};
  const Factors reshape =
      lay_out({.dims = "b (h d) -> b h d"}, {tensor({kBatch, 24})}, {tensor({kBatch, 6, 4})});
  const NodePlacement even = place_node(reshape, tp, {split_factor('h')}, "reshape");
  EXPECT_EQ(format_placements(even.inputs[0]), "S1/4");
  EXPECT_EQ(format_placements(even.outputs[0]), "S1");
  Split split = split_factor('h');
  split.ratios = {3, 0, 2, 1};
  const NodePlacement placed = place_node(reshape, tp, {split}, "reshape");
  EXPECT_EQ(format_placements(placed.inputs[0]), "S1/4:3:0:2:1");
  EXPECT_EQ(format_placements(placed.outputs[0]), "S1:3:0:2:1");
  for (int at = 0; at < 4; ++at) {
    const Region in = region({8, 24}, placed.inputs[0], tp, {at});
    const Region out = region({8, 6, 4}, placed.outputs[0], tp, {at});
    EXPECT_EQ(in[1].begin, 4 * out[1].begin);
    EXPECT_EQ(in[1].end, 4 * out[1].end);
  }
  // A linear that makes heads says so by its unit.
  const Factors linear_rule = lay_out(
      {.dims = "b k, n k -> b n"}, {tensor({kBatch, 8}), tensor({24, 8})}, {tensor({kBatch, 24})});
  Split n = split_factor('n');
  n.unit = 4;
  n.ratios = {3, 0, 2, 1};
  EXPECT_EQ(place_node(linear_rule, tp, {n}, "q").outputs[0], placed.inputs[0]);
}

TEST(CanSplit, MajorFactorsThatDivide) {
  const Factors heads =
      lay_out({.dims = "b (h d) -> b h d"}, {tensor({kBatch, 24})}, {tensor({kBatch, 6, 4})});
  const auto can = [&](char letter, int parts) {
    return can_split(heads, find_factor(heads, letter), parts);
  };
  EXPECT_TRUE(can('h', 3));
  EXPECT_FALSE(can('h', 4));    // shares a dim, so it must divide
  EXPECT_FALSE(can('d', 2));    // minor
  EXPECT_TRUE(can('b', 1000));  // as many samples as there may be
}

TEST(CanSplit, AloneItNeedsAnEntryForEachPart) {
  const Factors f =
      lay_out({.dims = "n, (x n) -> 1 n"}, {tensor({5}), tensor({5})}, {tensor({1, 5})});
  EXPECT_TRUE(can_split(f, find_factor(f, 'n'), 4));  // uneven, and x has length one
  EXPECT_TRUE(can_split(f, find_factor(f, 'n'), 5));
  EXPECT_FALSE(can_split(f, find_factor(f, 'n'), 6));
  EXPECT_FALSE(can_split(f, find_factor(f, 'x'), 2));
}

TEST(CanSplit, NotInUnitsOfTheBatch) {
  const Factors f =
      lay_out({.dims = "s b -> (s b)"}, {tensor({4, kBatch})}, {tensor({Dim(4, true)})});
  EXPECT_FALSE(can_split(f, find_factor(f, 's'), 2));
  EXPECT_FALSE(can_split(f, find_factor(f, 'b'), 2));
}

// ---- against brute force
// --------------------------------------------------------------------------

struct Case {
  FactorRule rule;
  TensorTypes inputs;
  TensorTypes outputs;
};

std::vector<Case> cases() {
  return {
      {{.dims = "b s k, n k -> b s n"},
       {tensor({kBatch, 3, 5}), tensor({4, 5})},
       {tensor({kBatch, 3, 4})}},
      {{.dims = "b s (h d) -> (b s) h d"},
       {tensor({kBatch, 3, 12})},
       {tensor({Dim(3, true), 4, 3})}},
      {{.dims = "b (h d) -> b h d"}, {tensor({Dim(3, true), 8})}, {tensor({Dim(3, true), 4, 2})}},
      {{.dims = "b s, -> , s"}, {tensor({kBatch, 5}), tensor({})}, {tensor({}), tensor({5})}}};
}

/// Entries of each factor that a device works on: the later axis cuts first; a batched factor is
/// cut between samples.
std::vector<Range> factor_ranges(const Factors& factors, const Mesh& mesh, const Splits& splits,
                                 const Coordinates& at, std::int64_t batch) {
  std::vector<Range> ranges;
  for (const Factors::Factor& factor : factors.factors) {
    const std::int64_t unit = factor.size.batched ? factor.size.size : 1;
    std::int64_t begin = 0;
    std::int64_t units = factor.size.batched ? batch : factor.size.size;
    for (std::size_t axis = splits.size(); axis-- > 0;) {
      if (splits[axis] == split_factor(factor.letter)) {
        const int parts = mesh.axes[axis].size;
        for (int i = 0; i < at[axis]; ++i) {
          begin += units / parts + (i < units % parts ? 1 : 0);
        }
        units = units / parts + (at[axis] < units % parts ? 1 : 0);
      }
    }
    ranges.push_back({begin * unit, (begin + units) * unit});
  }
  return ranges;
}

/// Whether entry `index` of a dim belongs to the device, by the factors that it decodes to.
bool belongs(const Factors& factors, const Factors::DimFactors& dim, std::int64_t index,
             const std::vector<Range>& ranges, std::int64_t batch) {
  for (auto it = dim.rbegin(); it != dim.rend(); ++it) {
    const Dim size = factors.factors[static_cast<std::size_t>(*it)].size;
    const std::int64_t length = size.size * (size.batched ? batch : 1);
    const std::int64_t entry = index % length;
    index /= length;
    const Range& range = ranges[static_cast<std::size_t>(*it)];
    if (entry < range.begin || entry >= range.end) {
      return false;
    }
  }
  return true;
}

void expect_regions(const Factors& factors, const std::vector<Factors::DimFactors>& operand,
                    const Region& region, const std::vector<Range>& ranges, std::int64_t batch) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    std::int64_t length = 1;
    for (const int f : operand[d]) {
      const Dim size = factors.factors[static_cast<std::size_t>(f)].size;
      length *= size.size * (size.batched ? batch : 1);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      EXPECT_EQ(i >= region[d].begin && i < region[d].end,
                belongs(factors, operand[d], i, ranges, batch))
          << "dim " << d << " entry " << i;
    }
  }
}

TEST(PlaceNode, RegionsHoldExactlyTheEntriesOfTheSplitFactors) {
  int tried = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    const auto pick = [&](unsigned n) { return static_cast<int>(rng() % n); };
    const Case c = cases()[static_cast<std::size_t>(pick(4))];
    const Factors factors = lay_out(c.rule, c.inputs, c.outputs);
    const Mesh mesh = mesh_of({{"a", 1 + pick(3)}, {"b", 1 + pick(3)}});
    Splits splits(2);
    for (Split& split : splits) {
      const int f = pick(static_cast<unsigned>(factors.factors.size()) + 1);
      if (f > 0) {
        split = split_factor(factors.factors[static_cast<std::size_t>(f - 1)].letter);
      }
    }
    NodePlacement placed;
    try {
      placed = place_node(factors, mesh, splits, "node");
    } catch (const Error&) {
      continue;
    }
    ++tried;
    const std::int64_t batch = 1 + pick(5);
    for (std::size_t p = 0; p < mesh.devices.size(); ++p) {
      SCOPED_TRACE(fmt::format("seed {} device {}", seed, p));
      const Coordinates at = coordinates(mesh, static_cast<int>(p));
      const auto ranges = factor_ranges(factors, mesh, splits, at, batch);
      for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        const Shape shape = bind(c.inputs[i].shape, batch);
        expect_regions(factors, factors.inputs[i], region(shape, placed.inputs[i], mesh, at),
                       ranges, batch);
        EXPECT_FALSE(has_partial(placed.inputs[i]));
      }
      for (std::size_t i = 0; i < c.outputs.size(); ++i) {
        const Shape shape = bind(c.outputs[i].shape, batch);
        expect_regions(factors, factors.outputs[i], region(shape, placed.outputs[i], mesh, at),
                       ranges, batch);
      }
    }
  }
  EXPECT_GT(tried, 100);
}

}  // namespace
}  // namespace weft
