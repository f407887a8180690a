#include "weft/simulate/play.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

Move run(double seconds) {
  return {.kind = Move::Kind::run, .exchange = -1, .lane = -1, .place = -1, .seconds = seconds};
}
Move join(int exchange, int lane) {
  return {.kind = Move::Kind::join, .exchange = exchange, .lane = lane};
}
Move arrive(int exchange) {
  return {.kind = Move::Kind::arrive, .exchange = exchange};
}
Move wait(int exchange) {
  return {.kind = Move::Kind::wait, .exchange = exchange};
}

// Two devices with a lane each and two collectives over both.
Game pair_game(std::vector<Move> first, std::vector<Move> second) {
  return {.devices = {std::move(first), std::move(second)},
          .lanes = 2,
          .parties = {{.lanes = {0, 1}, .arrivals = 0, .devices = {0, 1}}},
          .exchanges = {{.party = 0, .seconds = 5}, {.party = 0, .seconds = 7}}};
}

TEST(Play, RunsAddUp) {
  const Played played = play({.devices = {{run(1), run(2)}}}, true);
  EXPECT_TRUE(played.finished);
  EXPECT_EQ(played.end_s, 3);
  EXPECT_EQ(played.busy_s, std::vector<double>{3});
  ASSERT_EQ(played.moves[0].size(), 2U);
  EXPECT_EQ(played.moves[0][1].start_s, 1);
  EXPECT_EQ(played.moves[0][1].end_s, 3);
}

TEST(Play, AnExchangeStartsWithTheLastMember) {
  const Played played =
      play(pair_game({run(1), join(0, 0), wait(0), run(1)}, {run(4), join(0, 1), wait(0)}), false);
  EXPECT_TRUE(played.finished);
  EXPECT_EQ(played.exchanges[0].start_s, 4);
  EXPECT_EQ(played.end_s, 10);  // 4 + 5 + 1
}

TEST(Play, ALaneTakesOneExchangeAtATime) {
  Game game = pair_game({run(1), join(0, 0), join(1, 0), run(20)},
                        {run(1), join(0, 1), join(1, 1), run(2), wait(1)});
  const Played played = play(game, false);
  EXPECT_EQ(played.exchanges[1].start_s, 6) << "not before the first has ended";
  EXPECT_EQ(played.exchanges[1].end_s, 13);
  EXPECT_EQ(played.end_s, 21) << "what nobody waits for runs beside the computation";
}

TEST(Play, AnEndThatNobodyWaitsForCounts) {
  const Played played = play(pair_game({join(0, 0)}, {join(0, 1)}), false);
  EXPECT_EQ(played.end_s, 5);
}

TEST(Play, ATransferNeedsSenderAndReceiver) {
  const Game game = {
      .devices = {{run(1), join(0, 0), run(1), wait(0)}, {run(3), arrive(0), wait(0)}},
      .lanes = 1,
      .parties = {{.lanes = {0}, .arrivals = 1, .devices = {0, 1}}},
      .exchanges = {{.party = 0, .seconds = 2}}};
  const Played played = play(game, false);
  EXPECT_TRUE(played.finished);
  EXPECT_EQ(played.end_s, 5);
}

TEST(Play, SaysWhereItStopped) {
  // The devices order their collectives differently.
  const Played played =
      play(pair_game({join(0, 0), join(1, 0), wait(1)}, {join(1, 1), join(0, 1), wait(0)}), false);
  EXPECT_FALSE(played.finished);
  EXPECT_EQ(played.at, (std::vector<int>{2, 2}));
}

TEST(Play, SeesAnExchangeThatNeverHappens) {
  EXPECT_FALSE(play(pair_game({join(0, 0)}, {run(1)}), false).finished);
}

// Two transfers of 10 bytes over one resource of 2 bytes/s: alone 5 s each.
TEST(Play, ExchangesShareAResource) {
  Game game{.devices = {{join(0, 0), wait(0)}, {run(2), join(1, 1), wait(1)}},
            .lanes = 2,
            .parties = {{.lanes = {0}, .arrivals = 0, .devices = {0}},
                        {.lanes = {1}, .arrivals = 0, .devices = {1}}},
            .exchanges = {{.party = 0, .seconds = 5, .pattern = 0, .flow_bytes = 10},
                          {.party = 1, .seconds = 5, .pattern = 0, .flow_bytes = 10}},
            .resources = {2},
            .patterns = {{{.resource = 0, .flows = 1}}}};
  const Played played = play(game, false);
  // 4 bytes alone, the other 6 at half the speed: until 8 s. Then the second has 4 left: 2 s.
  EXPECT_DOUBLE_EQ(played.exchanges[0].end_s, 8);
  EXPECT_DOUBLE_EQ(played.exchanges[1].end_s, 10);
  // A latency does not use the link.
  game.exchanges[1].latency_s = 3;
  EXPECT_DOUBLE_EQ(play(game, false).exchanges[0].end_s, 5);
  EXPECT_DOUBLE_EQ(play(game, false).exchanges[1].end_s, 10);
}

TEST(Play, OverlapSlowsBothDown) {
  Game game{.devices = {{join(0, 0), run(4), run(4)}},
            .lanes = 1,
            .parties = {{.lanes = {0}, .arrivals = 0, .devices = {0}}},
            .exchanges = {{.party = 0, .seconds = 3}},
            .overlaps = {{.compute_slowdown = 2, .communication_slowdown = 1.5}}};
  const Played played = play(game, true);
  EXPECT_DOUBLE_EQ(played.exchanges[0].end_s, 4.5);
  // 2.25 s of the work are done by then, 5.75 s are left.
  EXPECT_DOUBLE_EQ(played.end_s, 10.25);
  EXPECT_DOUBLE_EQ(played.busy_s[0], 10.25);
  // Nothing to slow down if the device waits.
  game.devices[0] = {join(0, 0), wait(0), run(4)};
  EXPECT_DOUBLE_EQ(play(game, false).end_s, 7);
}

// Kernels of 1 s that take the host 2 s each to issue, then one of 10 s, then two of 1 s.
TEST(Play, TheHostIssuesAhead) {
  const auto kernel = [](double seconds) {
    return Move{
        .kind = Move::Kind::run, .seconds = seconds, .issue_s = 2, .behind_issue_s = 2 + seconds};
  };
  const Game game{.devices = {{kernel(1), kernel(1), kernel(10), kernel(1), kernel(1)}}};
  const Played played = play(game, true);
  // Issued at 2, 4, 6, 8, 10: 2-3, 4-5, 6-16, 16-17, 17-18.
  EXPECT_DOUBLE_EQ(played.end_s, 18);
  EXPECT_DOUBLE_EQ(played.busy_s[0], 14);
  EXPECT_DOUBLE_EQ(played.moves[0][1].start_s, 4);
  EXPECT_DOUBLE_EQ(played.moves[0][3].start_s, 16);
  // The same as one run.
  const Game joined{
      .devices = {{{.kind = Move::Kind::run, .seconds = 14, .issue_s = 10, .behind_issue_s = 18}}}};
  EXPECT_DOUBLE_EQ(play(joined, false).end_s, 18);
}

// The same game, solved by repeating the defining equations until nothing changes.
double fixpoint(const Game& game) {
  std::vector<double> end_s(game.exchanges.size(), 0);
  double last = -1;
  for (double now = 0; now != last;) {
    last = now;
    now = 0;
    std::vector<double> ready_s(game.exchanges.size(), 0);
    for (const auto& moves : game.devices) {
      double clock_s = 0;
      double lane_s = 0;  // a device has one lane
      for (const Move& move : moves) {
        if (move.kind == Move::Kind::run) {
          clock_s += move.seconds;
        } else if (move.kind == Move::Kind::wait) {
          clock_s = std::max(clock_s, end_s[move.exchange]);
        } else {
          ready_s[move.exchange] = std::max({ready_s[move.exchange], clock_s, lane_s});
          lane_s = end_s[move.exchange];
        }
      }
      now += clock_s;
    }
    for (std::size_t i = 0; i < end_s.size(); ++i) {
      end_s[i] = std::max(end_s[i], ready_s[i] + game.exchanges[i].seconds);
      now += end_s[i];
    }
  }
  return *std::max_element(end_s.begin(), end_s.end());
}

TEST(Play, MatchesTheEquations) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    const int devices = 2 + static_cast<int>(rng() % 3);
    Game game{.devices = std::vector<std::vector<Move>>(devices), .lanes = devices};
    for (int e = 0; e < 12; ++e) {
      Party party;
      for (int d = 0; d < devices; ++d) {
        if (rng() % 2 == 0) {
          party.lanes.push_back(d);
          party.devices.push_back(d);
        }
      }
      game.parties.push_back(party);
      game.exchanges.push_back({.party = e, .seconds = static_cast<double>(rng() % 9)});
      for (const int d : party.devices) {
        game.devices[d].push_back(run(static_cast<double>(rng() % 5)));
        game.devices[d].push_back(join(e, d));
        if (rng() % 2 == 0) {
          game.devices[d].push_back(wait(e));
        }
      }
    }
    for (auto& moves : game.devices) {
      moves.push_back(run(0));
    }
    for (int e = 0; e < 12; ++e) {  // so that the last end is the end of an exchange
      if (game.parties[e].lanes.empty()) {
        game.exchanges[e].seconds = 0;
      }
    }
    const Played played = play(game, false);
    ASSERT_TRUE(played.finished) << "seed " << seed;
    double last = 0;
    for (const Span& span : played.exchanges) {
      last = std::max(last, span.end_s);
    }
    ASSERT_EQ(last, fixpoint(game)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft
