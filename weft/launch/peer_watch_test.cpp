#include "weft/launch/peer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "weft/launch/line_socket.h"

namespace weft {
namespace {

using testing::HasSubstr;

// Ranks as threads of one process.
struct Ranks {
  explicit Ranks(int world, Patience patience = {}) : activities(world), causes(world) {
    const Listener listener = listen_at("127.0.0.1");
    for (int r = 0; r < world; ++r) {
      watches.push_back(std::make_unique<PeerWatch>(
          PeerWatchSpec{.rank = r,
                        .world = world,
                        .port = listener.port,
                        .key = 42,
                        .listener = r == 0 ? listener.fd : -1,
                        .patience = patience},
          activities[r], [this, r](const std::string& cause) { causes[r].set_value(cause); }));
    }
    port = listener.port;
  }
  std::string cause(int rank) {
    auto future = causes[rank].get_future();
    return future.wait_for(std::chrono::seconds(20)) == std::future_status::ready ? future.get()
                                                                                  : "none";
  }
  std::vector<Activity> activities;
  std::vector<std::promise<std::string>> causes;
  std::vector<std::unique_ptr<PeerWatch>> watches;
  int port = 0;
};

TEST(PeerWatch, AnErrorReachesAll) {
  Ranks ranks(3);
  EXPECT_EQ(ranks.watches[2]->fail("rank 2, step 4: no more memory", false),
            "rank 2, step 4: no more memory");
  EXPECT_EQ(ranks.cause(0), "rank 2, step 4: no more memory");
  EXPECT_EQ(ranks.cause(1), "rank 2, step 4: no more memory");
}

TEST(PeerWatch, TheFirstCauseIsFoundAmongConsequences) {
  Ranks ranks(3);
  auto consequence =
      std::async(std::launch::async, [&] { return ranks.watches[1]->fail("peer failed", true); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(ranks.watches[0]->fail("division by zero", false), "division by zero");
  EXPECT_EQ(consequence.get(), "division by zero");
  EXPECT_EQ(ranks.cause(2), "division by zero");
}

TEST(PeerWatch, ALeaverIsNoFailureAndStrangersAreIgnored) {
  Ranks ranks(3);
  LineSocket stranger(connect_to("127.0.0.1", ranks.port, 1));
  stranger.send(R"({"type":"hello","rank":1,"key":7})");
  stranger.send(R"({"type":"error","message":"I am a stranger"})");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (auto& watch : ranks.watches) {
    watch->leave();
  }
  for (auto& cause : ranks.causes) {
    EXPECT_EQ(cause.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  }
}

TEST(PeerWatch, ASilentRankIsNamed) {
  // Rank 1 says hello and then nothing.
  const Listener listener = listen_at("127.0.0.1");
  const Activity activity;
  std::promise<std::string> cause;
  const PeerWatch watch({.rank = 0,
                         .world = 2,
                         .port = listener.port,
                         .key = 1,
                         .listener = listener.fd,
                         .patience = {.silence_s = 0.5, .stuck_s = 60}},
                        activity, [&](const std::string& why) { cause.set_value(why); });
  LineSocket silent(connect_to("127.0.0.1", listener.port, 1));
  silent.send(R"({"type":"hello","rank":1,"key":1})");
  silent.send(R"({"type":"beat","works":true,"waits":false,"where":"step 3, sync"})");
  EXPECT_EQ(cause.get_future().get(),
            "rank 1 hangs: it has said nothing for 0.5 s; it was in step 3, sync");
}

TEST(PeerWatch, ALostConnectionIsNoticed) {
  const Listener listener = listen_at("127.0.0.1");
  const Activity activity;
  std::promise<std::string> cause;
  const PeerWatch watch(
      {.rank = 0, .world = 2, .port = listener.port, .key = 1, .listener = listener.fd}, activity,
      [&](const std::string& why) { cause.set_value(why); });
  {
    LineSocket dying(connect_to("127.0.0.1", listener.port, 1));
    dying.send(R"({"type":"hello","rank":1,"key":1})");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_THAT(cause.get_future().get(), HasSubstr("rank 1 is gone"));
}

}  // namespace
}  // namespace weft
