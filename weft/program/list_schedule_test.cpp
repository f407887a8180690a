#include "weft/program/list_schedule.h"

#include <gmock/gmock.h>

#include <map>
#include <tuple>

namespace weft {
namespace {

using Orders = std::vector<std::vector<OrderEntry>>;

// Plays the orders with given times; the end of the last task, or -1 if they never end. A reference
// that knows nothing of how the orders were made.
int span(const ListSchedule& p, const Orders& orders, int f, int b, int w) {
  std::vector<int> next_chunk(orders.size(), 0);
  std::map<std::pair<int, int>, int> stage_of;  // mesh, chunk
  for (std::size_t s = 0; s < p.mesh_of.size(); ++s) {
    stage_of[{p.mesh_of[s], next_chunk[p.mesh_of[s]]++}] = static_cast<int>(s);
  }
  std::map<std::tuple<char, int, int>, int> end;  // phase, stage, micro-batch
  std::vector<std::size_t> at(orders.size(), 0);
  std::vector<int> clock(orders.size(), 0);
  const int last = static_cast<int>(p.mesh_of.size()) - 1;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t mesh = 0; mesh < orders.size(); ++mesh) {
      while (at[mesh] < orders[mesh].size()) {
        const OrderEntry& e = orders[mesh][at[mesh]];
        const int s = stage_of.at({static_cast<int>(mesh), e.chunk});
        std::vector<std::tuple<char, int, int>> needs;
        if (e.phase == 'F' && s > 0) {
          needs = {{'F', s - 1, e.micro_batch}};
        } else if (e.phase == 'B') {
          needs = {{'F', s, e.micro_batch}};
          if (s < last) {
            needs.emplace_back('B', s + 1, e.micro_batch);
          }
        } else if (e.phase == 'W') {
          needs = {{'B', s, e.micro_batch}};
        }
        int ready = clock[mesh];
        bool all = true;
        for (const auto& need : needs) {
          all = all && end.contains(need);
          ready = all ? std::max(ready, end[need]) : ready;
        }
        if (!all) {
          break;
        }
        clock[mesh] = ready + (e.phase == 'F' ? f : e.phase == 'B' ? b : w);
        end[{e.phase, s, e.micro_batch}] = clock[mesh];
        ++at[mesh];
        moved = true;
      }
    }
  }
  const std::size_t phases = p.weights ? 3 : 2;
  const bool done =
      end.size() == phases * p.mesh_of.size() * static_cast<std::size_t>(p.micro_batches);
  return done ? *std::max_element(clock.begin(), clock.end()) : -1;
}

int most_held(const std::vector<OrderEntry>& order, bool weights) {
  int held = 0;
  int most = 0;
  for (const OrderEntry& e : order) {
    held += e.phase == 'F' ? 1 : e.phase == (weights ? 'W' : 'B') ? -1 : 0;
    most = std::max(most, held);
  }
  return most;
}

ListSchedule interleaved(int meshes, int chunks, int micro_batches) {
  ListSchedule p{
      .mesh_of = {}, .micro_batches = micro_batches, .weights = false, .most_in_flight = {}};
  for (int s = 0; s < meshes * chunks; ++s) {
    p.mesh_of.push_back(s % meshes);
  }
  for (int m = 0; m < meshes; ++m) {
    p.most_in_flight.push_back(2 * (meshes - 1 - m) + (chunks - 1) * meshes + 1);
  }
  return p;
}

TEST(ListSchedule, InterleavedHasThePublishedSpan) {
  // Bubble (p - 1)(F + B) of one chunk: span = (m v + p - 1)(f + b) for m a multiple of p.
  for (const auto& [p, v, m] : {std::tuple(2, 2, 4), std::tuple(4, 2, 8), std::tuple(4, 3, 12)}) {
    const ListSchedule problem = interleaved(p, v, m);
    const Orders orders = interleaved_schedule(p, v, m);
    EXPECT_EQ(span(problem, orders, 1, 2, 0), (m * v + p - 1) * 3) << p << " " << v << " " << m;
    for (int mesh = 0; mesh < p; ++mesh) {
      EXPECT_LE(most_held(orders[mesh], false), problem.most_in_flight[mesh]);
    }
  }
}

TEST(ListSchedule, AnyNumberOfMicroBatchesEnds) {
  for (int p = 1; p <= 5; ++p) {
    for (int v = 1; v <= 3; ++v) {
      for (int m = 1; m <= 9; ++m) {
        const ListSchedule problem = interleaved(p, v, m);
        EXPECT_GT(span(problem, list_schedule(problem), 1, 2, 0), 0) << p << " " << v << " " << m;
        EXPECT_GT(span(problem, interleaved_schedule(p, v, m), 1, 2, 0), 0)
            << p << " " << v << " " << m;
      }
    }
  }
}

TEST(ListSchedule, VShapeWithWeightsApartLeavesNoBubbleBeyondTheRamp) {
  // F = B = W: work 3 v m a mesh; the published bubble is 0, but for the ramp at the start.
  const int p = 4;
  const int m = 16;
  ListSchedule problem{.mesh_of = {0, 1, 2, 3, 3, 2, 1, 0},
                       .micro_batches = m,
                       .weights = true,
                       .most_in_flight = std::vector<int>(p, 2 * p)};
  const Orders orders = list_schedule(problem);
  const int end = span(problem, orders, 1, 1, 1);
  EXPECT_GE(end, 6 * m);
  EXPECT_LE(end, 6 * m + 2 * p);
  for (const auto& order : orders) {
    EXPECT_LE(most_held(order, true), 2 * p);
  }
}

TEST(ListSchedule, OneMicroBatchAlwaysFits) {
  ListSchedule problem = interleaved(3, 2, 5);
  problem.most_in_flight = {1, 1, 1};
  EXPECT_GT(span(problem, list_schedule(problem), 1, 2, 0), 0);
}

TEST(Order, TextAndBack) {
  const std::vector<OrderEntry> order = {{'F', 0, 0}, {'F', 12, 1}, {'B', 0, 0}, {'W', 3, 2}};
  EXPECT_EQ(format_order(order), "F0 F12.1 B0 W3.2");
  EXPECT_EQ(parse_order(format_order(order)), order);
  for (const char* wrong : {"F", "X1", "F1.", "F-1", "F1.x", "1F"}) {
    EXPECT_ANY_THROW(static_cast<void>(parse_order(wrong))) << wrong;
  }
}

}  // namespace
}  // namespace weft
