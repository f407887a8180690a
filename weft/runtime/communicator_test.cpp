#include "weft/kernels/torch_headers.h"

#include "weft/runtime/communicator.h"

#include <gtest/gtest.h>

#include "weft/runtime/ranks_as_threads.h"

namespace weft {
namespace {

TEST(Communicator, TransfersWithOneTagMatchInOrder) {
  run_ranks(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) {
      const auto a = communicator.send(1, at::full({3}, 1.0), 5);
      const auto b = communicator.send(1, at::full({2}, 2.0), 5);
      const auto other = communicator.send(1, at::full({4}, 3, at::kLong), 6);
      other->wait();
      b->wait();
      a->wait();
    } else {
      const at::Tensor other = at::empty({4}, at::kLong);
      communicator.receive(0, other, 6)->wait();  // before those that were sent first
      const at::Tensor a = at::empty({3});
      const at::Tensor b = at::empty({2});
      const auto first = communicator.receive(0, a, 5);
      const auto second = communicator.receive(0, b, 5);
      second->wait();
      first->wait();
      EXPECT_TRUE(at::equal(a, at::full({3}, 1.0)));
      EXPECT_TRUE(at::equal(b, at::full({2}, 2.0)));
      EXPECT_TRUE(at::equal(other, at::full({4}, 3, at::kLong)));
    }
  });
}

TEST(Communicator, GroupsAreListsOfRanks) {
  run_ranks(4, [](Communicator& communicator) {
    const int parity = communicator.rank() % 2;
    const int group = communicator.join({parity, parity + 2});
    EXPECT_EQ(communicator.join({parity, parity + 2}), group);
    const at::Tensor t = at::full({2}, communicator.rank(), at::kFloat);
    communicator.all_reduce(group, t);
    EXPECT_EQ(t[0].item<float>(), 2 * parity + 2);
    communicator.all_reduce(0, t);
    EXPECT_EQ(t[1].item<float>(), 2 * (2 + 4));
  });
}

TEST(Communicator, RefusesWhatIsNotContiguous) {
  run_ranks(1, [](Communicator& communicator) {
    EXPECT_THROW(communicator.all_reduce(0, at::zeros({4, 4}).t().narrow(0, 0, 2)), Error);
  });
}

TEST(Communicator, AbortEndsAWait) {
  run_ranks(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) {
      const at::Tensor never = at::empty({2});
      const auto transfer = communicator.receive(1, never, 1);
      std::jthread helper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        communicator.abort();
      });
      EXPECT_THROW(transfer->wait(), PeerError);
    }
  });
}

TEST(Communicator, SaysWhomItCannotMeet) {
  try {
    const Communicator alone(
        {.host = "127.0.0.1", .port = free_port(), .rank = 1, .world = 2, .timeout_s = 0.2});
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_NE(std::string(error.what()).find("meeting 2 ranks at 127.0.0.1:"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace weft
