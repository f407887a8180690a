#include "weft/emulate/board.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

namespace weft {
namespace {

// A file that is gone at the end.
struct BoardFile {
  std::string path = testing::TempDir() + "board-" + std::to_string(::getpid());
  BoardFile() { std::remove(path.c_str()); }
  ~BoardFile() { std::remove(path.c_str()); }
  BoardFile(const BoardFile&) = delete;
  BoardFile& operator=(const BoardFile&) = delete;
  BoardFile(BoardFile&&) = delete;
  BoardFile& operator=(BoardFile&&) = delete;
};

TEST(Board, AMeetingBeginsWithTheLastAndTakesItsTime) {
  const BoardFile file;
  const double begin_s = wall_s();
  double ends[2] = {};
  {
    std::vector<std::jthread> devices;
    for (int d = 0; d < 2; ++d) {
      devices.emplace_back([&, d] {
        Board board(file.path);  // as if in a process of its own
        Meeting meeting{.key = 7, .parties = 2, .alone_s = 0.02, .most = 1, .uses = {{0, 1}}};
        meeting.arrival_s = begin_s + 0.01 * d;
        sleep_until(meeting.arrival_s);
        board.arrive(meeting);
        board.leave(meeting);
        EXPECT_GE(wall_s(), meeting.end_s);
        ends[d] = meeting.end_s;
      });
    }
  }
  EXPECT_NEAR(ends[0], begin_s + 0.03, 1e-9);
  EXPECT_EQ(ends[0], ends[1]);
}

TEST(Board, TwoTransfersOnOneLinkTakeTwiceAsLong) {
  const BoardFile file;
  Board board(file.path);
  const double begin_s = wall_s() + 0.01;
  std::vector<Meeting> meetings;
  for (std::uint64_t key = 1; key <= 2; ++key) {
    meetings.push_back({.key = key,
                        .parties = 1,
                        .alone_s = 0.02,
                        .most = 1,
                        .uses = {{3, 1}},
                        .arrival_s = begin_s});
    board.arrive(meetings.back());
  }
  for (Meeting& meeting : meetings) {
    board.leave(meeting);
    EXPECT_NEAR(meeting.end_s, begin_s + 0.04, 1e-6);
  }
  // The places are free again, and the same key means another meeting.
  Meeting again{.key = 1, .parties = 1, .alone_s = 0.001, .arrival_s = wall_s()};
  board.arrive(again);
  board.leave(again);
  EXPECT_NEAR(again.end_s, again.arrival_s + 0.001, 1e-9);
}

TEST(Board, WhatShouldBeOverIsOver) {
  const BoardFile file;
  Board board(file.path);
  Meeting late{.key = 5, .parties = 1, .alone_s = 50, .arrival_s = wall_s() - 100};
  const double before_s = wall_s();
  board.arrive(late);
  board.leave(late);
  EXPECT_LT(wall_s() - before_s, 25);
  EXPECT_NEAR(late.end_s, late.arrival_s + 50, 1e-9);
}

TEST(Sleep, EndsInTime) {
  double worst_s = 1;
  for (int i = 0; i < 20; ++i) {  // other work may delay some of them
    const double until_s = wall_s() + 0.001;
    sleep_until(until_s);
    EXPECT_GE(wall_s(), until_s);
    worst_s = std::min(worst_s, wall_s() - until_s);
  }
  EXPECT_LT(worst_s, 0.1);
}

}  // namespace
}  // namespace weft
