#include "weft/kernels/torch_headers.h"

#include "weft/runtime/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "weft/runtime/ranks_as_threads.h"

namespace weft {
namespace {

// "nccl" is a stand-in for the library, on memory of the host (tests/nccl).
class OnPath : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Communicator, OnPath, testing::Values("shm", "gloo", "nccl"),
                         [](const auto& tested) { return std::string(tested.param); });

// Numbers whose sums round, different on every rank.
at::Tensor numbers(std::int64_t count, int rank, at::ScalarType dtype) {
  const at::Tensor t = at::arange(count, at::kDouble).add(1.7 * rank + 1).sin();
  return dtype == at::kDouble || at::isFloatingType(dtype) ? t.to(dtype)
                                                           : t.mul(50).add(60).to(dtype);
}

// ((r0 + r1) + r2) + …, in f32 for half precision.
at::Tensor sum_in_order(std::int64_t count, int ranks, at::ScalarType dtype) {
  const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
  at::Tensor sum = numbers(count, 0, dtype).to(half ? at::kFloat : dtype);
  for (int r = 1; r < ranks; ++r) {
    sum.add_(numbers(count, r, dtype).to(sum.scalar_type()));
  }
  return sum.to(dtype);
}

bool near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return at::allclose(a.to(at::kDouble), b.to(at::kDouble), 0, tolerance);
}

TEST_P(OnPath, IsWhatWasAskedFor) {
  const std::string path = GetParam();
  run_ranks(
      2, [&](Communicator& communicator) { EXPECT_EQ(communicator.path(0), path); }, path);
}

TEST_P(OnPath, AddsEveryDtypeAtEverySize) {
  const std::string path = GetParam();
  const auto body = [&](Communicator& communicator) {
    for (const at::ScalarType dtype :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte}) {
      for (const std::int64_t count : {1, 7, 20011, 300007}) {
        const at::Tensor t = numbers(count, communicator.rank(), dtype);
        communicator.all_reduce(0, t);
        const at::Tensor wanted = sum_in_order(count, 3, dtype);
        // Gloo adds in the order of a ring.
        EXPECT_TRUE(path != "gloo" || !t.is_floating_point() ? at::equal(t, wanted)
                                                             : near(t, wanted, 0.02))
            << c10::toString(dtype) << " " << count;
      }
    }
  };
  run_ranks(3, body, path);
}

TEST_P(OnPath, TakesTheLargest) {
  const auto body = [](Communicator& communicator) {
    for (const std::int64_t count : {5, 300007}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
        const at::Tensor t = numbers(count, communicator.rank(), dtype);
        communicator.all_reduce(0, t, ReduceOp::max);
        const at::Tensor wanted =
            at::maximum(at::maximum(numbers(count, 0, dtype), numbers(count, 1, dtype)),
                        numbers(count, 2, dtype));
        EXPECT_TRUE(at::equal(t, wanted));
      }
    }
  };
  run_ranks(3, body, GetParam());
}

TEST_P(OnPath, ReducesListsFromOneMemoryToAnother) {
  const auto body = [](Communicator& communicator) {
    Communicator::Tensors from;
    Communicator::Tensors to;
    Communicator::Tensors kept;
    for (const std::int64_t count : {3, 0, 100003, 1, 70001, 600011}) {
      from.push_back(numbers(count, communicator.rank(), at::kFloat));
      kept.push_back(from.back().clone());
      to.push_back(count == 1 ? from.back() : at::zeros({count}));  // one of them in place
    }
    communicator.all_reduce(0, from, to);
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_TRUE(near(to[i], sum_in_order(to[i].numel(), 2, at::kFloat), 1e-6)) << i;
      EXPECT_TRUE(i == 3 || at::equal(from[i], kept[i])) << i;
    }
  };
  run_ranks(2, body, GetParam());
}

TEST_P(OnPath, ScattersSumsOfUnequalParts) {
  const auto body = [](Communicator& communicator) {
    const std::vector<std::int64_t> sizes = {0, 300007, 5};
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      const at::Tensor whole = numbers(300012, communicator.rank(), dtype);
      const Communicator::Tensors parts = {whole.narrow(0, 0, 0), whole.narrow(0, 0, 300007),
                                           whole.narrow(0, 300007, 5)};
      const int self = communicator.rank();
      const at::Tensor mine = self == 1 ? parts[1] : at::zeros({sizes[self]}, dtype);  // in place
      communicator.reduce_scatter(0, parts, mine);
      const at::Tensor wanted = sum_in_order(300012, 3, dtype);
      EXPECT_TRUE(at::equal(mine, wanted.narrow(0, self == 2 ? 300007 : 0, sizes[self])))
          << c10::toString(dtype);
    }
  };
  run_ranks(3, body, GetParam());
}

TEST_P(OnPath, GathersExchangesAndBroadcastsUnequalParts) {
  const auto body = [](Communicator& communicator) {
    const std::vector<std::int64_t> sizes = {200003, 0, 17};
    const int self = communicator.rank();
    Communicator::Tensors parts;
    Communicator::Tensors send;
    Communicator::Tensors recv;
    for (int m = 0; m < 3; ++m) {
      parts.push_back(at::zeros({sizes[m]}, at::kBFloat16));
      send.push_back(at::full({sizes[m] * (self + 1)}, 10 * self + m, at::kInt));
      recv.push_back(at::zeros({sizes[self] * (m + 1)}, at::kInt));
    }
    communicator.all_gather(0, numbers(sizes[self], self, at::kBFloat16), parts);
    communicator.all_to_all(0, send, recv);
    const at::Tensor told =
        self == 2 ? numbers(300001, 5, at::kDouble) : at::zeros({300001}, at::kDouble);
    communicator.broadcast(0, 2, told);
    EXPECT_TRUE(at::equal(told, numbers(300001, 5, at::kDouble)));
    for (int m = 0; m < 3; ++m) {
      EXPECT_TRUE(at::equal(parts[m], numbers(sizes[m], m, at::kBFloat16))) << m;
      EXPECT_TRUE(at::equal(recv[m], at::full_like(recv[m], 10 * m + self))) << m;
    }
  };
  run_ranks(3, body, GetParam());
}

TEST_P(OnPath, PacksWhatIsNotContiguous) {
  const auto body = [](Communicator& communicator) {
    const int self = communicator.rank();
    const at::Tensor whole = numbers(12, self, at::kFloat).view({3, 4});
    const at::Tensor columns = whole.narrow(1, 1, 2);
    communicator.all_reduce(0, columns);
    const at::Tensor sum = sum_in_order(12, 2, at::kFloat).view({3, 4});
    EXPECT_TRUE(at::equal(columns, sum.narrow(1, 1, 2)));
    EXPECT_EQ(whole[0][0].item<float>(), numbers(12, self, at::kFloat)[0].item<float>());
    const at::Tensor got = at::zeros({4, 3}).t();
    const auto transfer =
        self == 0 ? communicator.send(1, whole.t(), 1) : communicator.receive(0, got.t(), 1);
    transfer->wait();
    EXPECT_TRUE(self == 0 || at::equal(got.narrow(1, 1, 2), sum.narrow(1, 1, 2)));
  };
  run_ranks(2, body, GetParam());
}

TEST_P(OnPath, TransfersWithOneTagMatchInOrder) {
  const auto body = [](Communicator& communicator) {
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
  };
  run_ranks(2, body, GetParam());
}

// More than there are notes, and nobody waits before all have begun.
TEST_P(OnPath, ManyTransfersAreUnderWayAtOnce) {
  const auto body = [](Communicator& communicator) {
    const int peer = 1 - communicator.rank();
    std::vector<at::Tensor> got;
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int i = 0; i < 300; ++i) {
      transfers.push_back(communicator.send(peer, at::full({i % 7}, i, at::kInt), i % 3));
    }
    for (int i = 299; i >= 0; --i) {
      const int wanted = 299 - i;
      got.push_back(at::empty({wanted % 7}, at::kInt));
      transfers.push_back(communicator.receive(peer, got.back(), wanted % 3));
    }
    for (const auto& transfer : transfers) {
      transfer->wait();
    }
    for (int i = 0; i < 300; ++i) {
      EXPECT_TRUE(at::equal(got[i], at::full({i % 7}, i, at::kInt))) << i;
    }
  };
  run_ranks(2, body, GetParam());
}

// A transfer goes on while its receiver does something else, so the sender's wait ends.
TEST_P(OnPath, TransfersGoOnBehindTheReceiversBack) {
  std::atomic<bool> sent = false;
  const auto body = [&](Communicator& communicator) {
    const at::Tensor t = at::full({300000}, communicator.rank());
    if (communicator.rank() == 0) {
      communicator.send(1, t, 0)->wait();
      sent = true;
      return;
    }
    const auto transfer = communicator.receive(0, t, 0);
    for (int i = 0; i < 500 && !sent; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(sent);
    transfer->wait();
    EXPECT_EQ(t.sum().item<float>(), 0);
  };
  run_ranks(2, body, GetParam());
}

TEST_P(OnPath, GroupsAreListsOfRanks) {
  const auto body = [](Communicator& communicator) {
    const int parity = communicator.rank() % 2;
    const int group = communicator.join({parity, parity + 2});
    EXPECT_EQ(communicator.join({parity, parity + 2}), group);
    const at::Tensor t = at::full({2}, communicator.rank(), at::kFloat);
    communicator.all_reduce(group, t);
    EXPECT_EQ(t[0].item<float>(), 2 * parity + 2);
    communicator.all_reduce(0, t);
    EXPECT_EQ(t[1].item<float>(), 2 * (2 + 4));
    communicator.barrier(group);
  };
  run_ranks(4, body, GetParam());
}

TEST_P(OnPath, AbortEndsAWait) {
  if (GetParam() == std::string("nccl")) {
    GTEST_SKIP() << "who waits for a rank that gave up waits for ever in the stand-in";
  }
  const auto body = [](Communicator& communicator) {
    if (communicator.rank() == 0) {
      const at::Tensor never = at::empty({2});
      const auto transfer = communicator.receive(1, never, 1);
      std::jthread helper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        communicator.abort();
      });
      EXPECT_THROW(transfer->wait(), PeerError);
    }
  };
  try {
    run_ranks(2, body, GetParam());  // the barrier behind it may fail: one side has given up
  } catch (const PeerError&) {
  }
}

TEST(Communicator, AbortEndsACollectiveAndTellsThePeers) {
  std::vector<std::string> said(2);
  const auto body = [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      communicator.abort();
    }
    const at::Tensor t = at::ones({100000});
    try {
      communicator.all_reduce(0, t);
    } catch (const PeerError& error) {
      said[communicator.rank()] = error.what();
      throw;
    }
  };
  EXPECT_THROW(run_ranks(2, body, "shm"), PeerError);
  EXPECT_EQ(said[0], "all_reduce failed: it was aborted");
  EXPECT_EQ(said[1], "all_reduce failed: rank 0 has left");
}

TEST(Communicator, ARankThatLeavesIsNoticed) {
  const auto body = [](Communicator& communicator) {
    if (communicator.rank() == 1) {
      throw Error(Blame::environment, "something of its own");
    }
    const auto transfer = communicator.receive(1, at::empty({2}), 1);
    EXPECT_THROW(transfer->wait(), PeerError);
    EXPECT_THROW(communicator.barrier(), PeerError);
  };
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(run_ranks(2, body, "shm"), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Communicator, AWaitEndsAtItsDeadline) {
  const ReservedPort port;
  std::vector<std::string> said(2);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        Communicator communicator(
            {.port = port.number(), .rank = rank, .world = 2, .timeout_s = 1});
        if (rank == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(2));
          return;
        }
        try {
          communicator.barrier();
        } catch (const PeerError& error) {
          said[rank] = error.what();
        }
      });
    }
  }
  EXPECT_EQ(said[0], "barrier failed: a rank of 0,1 did not come within 1 s");
}

TEST(Communicator, SaysWhomItCannotMeet) {
  const ReservedPort port;
  try {
    const Communicator alone(
        {.host = "127.0.0.1", .port = port.number(), .rank = 1, .world = 2, .timeout_s = 0.2});
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_NE(std::string(error.what()).find("meeting 2 ranks at 127.0.0.1:"), std::string::npos)
        << error.what();
  }
}

TEST(Communicator, DoesNotMeetAnotherJob) {
  // Two jobs at one port: the second one's rank 1 comes first, and must not take the place of the
  // first one's.
  const ReservedPort port;
  const auto place = [&](int rank, const char* job) {
    return Rendezvous{.port = port.number(), .rank = rank, .world = 2, .job = job, .timeout_s = 20};
  };
  std::atomic<int> met = 0;
  const auto meet = [&](int rank) {
    Communicator communicator(place(rank, "first"));
    communicator.barrier();
    ++met;
  };
  {
    const std::jthread host([&] { meet(0); });
    try {
      const Communicator stranger(place(1, "second"));
      ADD_FAILURE() << "took rank 0 of the first job for its own";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 0 of another job ('first', this one is "),
                std::string::npos)
          << error.what();
    }
    const std::jthread peer([&] { meet(1); });
  }
  EXPECT_EQ(met, 2);
}

TEST(Communicator, SaysThatNcclIsMissing) {
  ::setenv("WEFT_NCCL", "/nowhere/libnccl.so.2", 1);
  const auto nothing = [](Communicator&) {};
  try {
    run_ranks(2, nothing, "nccl");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::environment);
    EXPECT_NE(std::string(error.what()).find("NCCL is missing on this rank"), std::string::npos);
  }
  ::unsetenv("WEFT_NCCL");
}

TEST(Communicator, RefusesUnknownPaths) {
  EXPECT_THROW(run_ranks(
                   1, [](Communicator&) {}, "telepathy"),
               Error);
}

}  // namespace
}  // namespace weft
