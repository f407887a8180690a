#include "weft/launch/pulse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace weft {
namespace {

using testing::HasSubstr;
using Clock = Pulse::Clock;

Clock::time_point at(double seconds) {
  return Clock::time_point() + std::chrono::hours(1) +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Beats twice a second until `end`; `works` says for each moment whether it works.
Pulse beaten(double end, bool waits, const auto& works) {
  Pulse pulse{.heard = at(0)};
  for (double t = 0; t <= end; t += 0.5) {
    note_heartbeat(pulse, {.works = works(t), .waits = waits, .where = "step 1"}, at(t));
  }
  return pulse;
}

const Patience kPatience = {.silence_s = 6, .stuck_s = 6, .all_wait_s = 30};

TEST(FindHang, SilenceIsAHang) {
  const auto busy = [](double) { return true; };
  const std::vector<Pulse> pulses = {beaten(20, false, busy), beaten(13, false, busy)};
  EXPECT_FALSE(find_hang(pulses, kPatience, at(19)));
  const auto hang = find_hang(pulses, kPatience, at(20));
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 1);
  EXPECT_EQ(hang->text, "hangs: it has said nothing for 6 s; it was in step 1");
}

TEST(FindHang, ALongKernelIsNone) {
  const std::vector<Pulse> pulses = {beaten(500, false, [](double) { return true; }),
                                     beaten(500, true, [](double) { return false; })};
  EXPECT_FALSE(find_hang(pulses, kPatience, at(500)));
}

TEST(FindHang, AThreadThatSleepsAndWaitsForNobodyIsOne) {
  const auto until_3 = [](double t) { return t < 3; };
  const std::vector<Pulse> pulses = {beaten(10, true, until_3), beaten(10, false, until_3)};
  EXPECT_FALSE(find_hang(pulses, kPatience, at(9)));
  const auto hang = find_hang(pulses, kPatience, at(9.2));
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->rank, 1);
  EXPECT_THAT(hang->text, HasSubstr("done nothing for 6 s"));
}

TEST(FindHang, EverybodyWaitsForEverybody) {
  std::vector<Pulse> pulses(2, beaten(60, true, [](double t) { return t < 20; }));
  EXPECT_FALSE(find_hang(pulses, kPatience, at(49)));
  const auto hang = find_hang(pulses, kPatience, at(51));
  ASSERT_TRUE(hang);
  EXPECT_THAT(hang->text, HasSubstr("rank 1 waits in step 1"));
  pulses[0].ended = pulses[1].ended = true;
  EXPECT_FALSE(find_hang(pulses, kPatience, at(51)));
}

TEST(PulseSampler, TellsWorkFromSleep) {
  const Activity activity;
  PulseSampler sampler(activity);
  static_cast<void>(sampler.sample());
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); };
  pause();
  EXPECT_FALSE(sampler.sample().works);
  std::atomic<bool> stop = false;
  {
    const std::jthread kernel([&] {
      while (!stop) {
      }
    });
    pause();
    EXPECT_TRUE(sampler.sample().works);
    stop = true;
  }
  pause();
  static_cast<void>(sampler.sample());
  pause();
  EXPECT_FALSE(sampler.sample().works);
}

TEST(Activity, SaysWhatIsGoingOn) {
  Activity activity;
  EXPECT_EQ(activity.view().where, "");
  activity.enter("loading x", true);
  EXPECT_EQ(activity.view().where, "loading x");
  EXPECT_TRUE(activity.view().waits);
  const std::uint64_t before = activity.view().ticks;
  activity.begin_step(3);
  activity.instruction("backward\nmatmul h.0", 1, false);
  EXPECT_EQ(activity.view().where, "step 3, backward of micro-batch 1, matmul h.0");
  EXPECT_FALSE(activity.view().waits);
  EXPECT_GT(activity.view().ticks, before);
  activity.instruction("update\n" + std::string(1000, 'x'), -1, false);
  EXPECT_EQ(activity.view().where.substr(0, 20), "step 3, update, xxxx");
}

TEST(Activity, OutlivesTheProcessThatWroteIt) {
  const ActivityMonitor monitor;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kActivityFd, std::to_string(monitor.fd()).c_str(), 1);
    Activity activity;
    activity.begin_step(9);
    activity.instruction("forward\nadd a", 0, false);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(monitor.view().where, "step 9, forward of micro-batch 0, add a");
}

}  // namespace
}  // namespace weft
