// Collectives between processes of one host: shared memory against Gloo, in turns, in one run.
//
//   comm_bench [ROUNDS]
//
// Every row: the median over rounds of the time of one operation on rank 0, for 4 B, 64 KB, 1 MB
// and 64 MB a rank, with 2 and 4 ranks; and how many times as fast shared memory is.
#include "weft/kernels/torch_headers.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "weft/launch/reserved_port.h"
#include "weft/runtime/communicator.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Operation = std::function<void(Communicator&, const at::Tensor&)>;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double seconds_of(Communicator& communicator, const Operation& operation, const at::Tensor& tensor,
                  int repeats) {
  communicator.barrier();
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    operation(communicator, tensor);
  }
  return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
}

void all_reduce(Communicator& communicator, const at::Tensor& tensor) {
  communicator.all_reduce(0, tensor);
}

// The tensor is what everybody has in the end.
void all_gather(Communicator& communicator, const at::Tensor& tensor) {
  const auto parts = at::tensor_split(tensor, communicator.world());
  communicator.all_gather(0, parts[communicator.rank()], parts);
}

void reduce_scatter(Communicator& communicator, const at::Tensor& tensor) {
  const auto parts = at::tensor_split(tensor, communicator.world());
  communicator.reduce_scatter(0, parts, parts[communicator.rank()]);
}

void all_to_all(Communicator& communicator, const at::Tensor& tensor) {
  const auto half = tensor.numel() / 2;
  const int n = communicator.world();
  communicator.all_to_all(0, at::tensor_split(tensor.narrow(0, 0, half), n),
                          at::tensor_split(tensor.narrow(0, half, half), n));
}

// To the right neighbour, from the left one.
void send(Communicator& communicator, const at::Tensor& tensor) {
  const int n = communicator.world();
  const at::Tensor half = tensor.narrow(0, 0, (tensor.numel() + 1) / 2);
  const at::Tensor rest = tensor.narrow(0, tensor.numel() / 2, half.numel());
  const auto out = communicator.send((communicator.rank() + 1) % n, half, 1);
  const auto in = communicator.receive((communicator.rank() + n - 1) % n, rest, 1);
  in->wait();
  out->wait();
}

void measure(int rank, int world, int shm_port, int gloo_port, int rounds) {
  at::set_num_threads(1);
  const auto connect = [&](const char* path, int port) {
    return std::make_unique<Communicator>(
        Rendezvous{.port = port, .rank = rank, .world = world, .timeout_s = 60, .path = path});
  };
  const auto shm = connect("shm", shm_port);
  const auto gloo = connect("gloo", gloo_port);
  const std::pair<const char*, Operation> operations[] = {{"all_reduce", all_reduce},
                                                          {"all_gather", all_gather},
                                                          {"reduce_scatter", reduce_scatter},
                                                          {"all_to_all", all_to_all},
                                                          {"send", send}};
  for (const auto& [name, operation] : operations) {
    for (const std::int64_t bytes : {4LL, 64LL << 10, 1LL << 20, 64LL << 20}) {
      const at::Tensor tensor = at::ones({bytes / 4});
      if (bytes == 4 && name != std::string_view("all_reduce")) {
        continue;
      }
      const int repeats = bytes >= (64 << 20) ? 1 : bytes >= (1 << 20) ? 10 : 50;
      std::vector<double> times[2];
      for (int round = 0; round < rounds + 1; ++round) {
        const double ours = seconds_of(*shm, operation, tensor, repeats);
        const double theirs = seconds_of(*gloo, operation, tensor, repeats);
        if (round > 0) {
          times[0].push_back(ours);
          times[1].push_back(theirs);
        }
        tensor.fill_(1);
      }
      if (rank == 0) {
        const double ours = median(times[0]);
        const double theirs = median(times[1]);
        fmt::print("{:<15} {} ranks {:>9} B   shm {:>10.1f} us   gloo {:>10.1f} us   {:.2f}x\n",
                   name, world, bytes, 1e6 * ours, 1e6 * theirs, theirs / ours);
        std::fflush(stdout);
      }
    }
  }
}

// Processes start before libtorch has threads.
int run(int world, int rounds) {
  const ReservedPort ports[2];
  std::vector<pid_t> pids;
  for (int rank = 0; rank < world; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        measure(rank, world, ports[0].number(), ports[1].number(), rounds);
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", rank, error.what());
        std::_Exit(1);
      }
      std::fflush(stdout);
      std::_Exit(0);
    }
    pids.push_back(pid);
  }
  int failed = 0;
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    failed |= status;
  }
  return failed;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  return weft::run(2, rounds) != 0 || weft::run(4, rounds) != 0 ? 1 : 0;
}
