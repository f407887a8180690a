// NCCL's C interface for ranks that are threads of one process, on memory of the host: what
// NcclChannel calls can be checked without a GPU. It is part of the test program, which exports it.
// Calls of a group are matched by their order, sends and receives by their order between two ranks.
//
//   ncclGroupEnd:  | publish my calls | read what concerns me | write it |     | is a barrier
#include <barrier>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/runtime/reduce.h"

namespace {

enum class Kind { all_reduce, reduce, broadcast, send, receive };

struct Call {
  Kind kind = Kind::send;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int peer = 0;  // or root
};

struct World {
  explicit World(int n) : barrier(n), calls(n) {}
  std::barrier<> barrier;
  std::vector<std::vector<Call>> calls;  // by rank
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
};

std::mutex mutex;
std::map<std::string, std::weak_ptr<World>> worlds;
thread_local std::vector<Call> calls;
thread_local Comm* current = nullptr;

weft::DType dtype_of(int type) {
  static const std::map<int, weft::DType> types = {
      {1, weft::DType::u8},  {2, weft::DType::i32}, {4, weft::DType::i64}, {6, weft::DType::f16},
      {7, weft::DType::f32}, {8, weft::DType::f64}, {9, weft::DType::bf16}};
  return types.at(type);
}

std::size_t bytes_of(const Call& call) {
  return call.count * static_cast<std::size_t>(weft::element_bytes(dtype_of(call.type)));
}

int add(Comm* comm, const Call& call) {
  current = comm;
  calls.push_back(call);
  return 0;
}

std::vector<std::byte> copy_of(const Call& call) {
  const auto* begin = static_cast<const std::byte*>(call.from);
  return {begin, begin + bytes_of(call)};
}

std::vector<std::byte> sum_of(const World& world, std::size_t index) {
  const Call& mine = world.calls[0][index];
  std::vector<const std::byte*> terms;
  for (const auto& list : world.calls) {
    terms.push_back(static_cast<const std::byte*>(list.at(index).from));
  }
  std::vector<std::byte> result(bytes_of(mine));
  weft::reduce(dtype_of(mine.type), mine.op == 0 ? weft::ReduceOp::sum : weft::ReduceOp::max, terms,
               result.data(), result.size());
  return result;
}

// The call of `list` that is the number-th of this kind with this peer.
const Call& matching(const std::vector<Call>& list, Kind kind, int peer, int number) {
  for (const Call& call : list) {
    if (call.kind == kind && call.peer == peer && number-- == 0) {
      return call;
    }
  }
  throw std::out_of_range("a receive without its send");
}

std::vector<std::byte> result_of(const Comm& comm, std::size_t index,
                                 std::map<int, int>& received) {
  const World& world = *comm.world;
  const Call& call = world.calls[comm.rank][index];
  switch (call.kind) {
    case Kind::all_reduce:
      return sum_of(world, index);
    case Kind::reduce:
      return call.peer == comm.rank ? sum_of(world, index) : std::vector<std::byte>();
    case Kind::broadcast:
      return copy_of(world.calls[call.peer].at(index));
    case Kind::receive:
      return copy_of(
          matching(world.calls[call.peer], Kind::send, comm.rank, received[call.peer]++));
    case Kind::send:
      break;
  }
  return {};
}

}  // namespace

extern "C" {

struct UniqueId {
  char bytes[128];
};

int ncclGetUniqueId(UniqueId* id) {
  static int next = 0;
  const std::lock_guard lock(mutex);
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::snprintf(id->bytes, sizeof id->bytes, "world %d", next++);
  return 0;
}

int ncclCommInitRank(void** comm, int n, UniqueId id, int rank) {
  const std::lock_guard lock(mutex);
  std::shared_ptr<World> world = worlds[id.bytes].lock();
  if (!world) {
    world = std::make_shared<World>(n);
    worlds[id.bytes] = world;
  }
  *comm = new Comm{.world = world, .rank = rank};
  return 0;
}

int ncclCommAbort(void* comm) {
  delete static_cast<Comm*>(comm);
  return 0;
}

int ncclCommGetAsyncError(void* /*comm*/, int* error) {
  *error = 0;
  return 0;
}

const char* ncclGetErrorString(int error) {
  return error == 0 ? "no error" : "an error";
}

int ncclGroupStart() {
  calls.clear();
  current = nullptr;
  return 0;
}

// A member that calls nothing at all would not be met: as with NCCL, it takes no part.
int ncclGroupEnd() {
  if (current == nullptr) {
    return 0;
  }
  World& world = *current->world;
  world.calls[current->rank] = calls;
  world.barrier.arrive_and_wait();
  std::vector<std::vector<std::byte>> results;
  std::map<int, int> received;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    results.push_back(result_of(*current, i, received));
  }
  world.barrier.arrive_and_wait();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!results[i].empty()) {
      std::memcpy(calls[i].to, results[i].data(), results[i].size());
    }
  }
  world.barrier.arrive_and_wait();
  return 0;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op, void* comm,
                  void* /*stream*/) {
  return add(static_cast<Comm*>(comm), {Kind::all_reduce, from, to, count, type, op, 0});
}

int ncclReduce(const void* from, void* to, std::size_t count, int type, int op, int root,
               void* comm, void* /*stream*/) {
  return add(static_cast<Comm*>(comm), {Kind::reduce, from, to, count, type, op, root});
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* comm,
                  void* /*stream*/) {
  return add(static_cast<Comm*>(comm), {Kind::broadcast, from, to, count, type, 0, root});
}

int ncclSend(const void* from, std::size_t count, int type, int peer, void* comm,
             void* /*stream*/) {
  return add(static_cast<Comm*>(comm), {Kind::send, from, nullptr, count, type, 0, peer});
}

int ncclRecv(void* to, std::size_t count, int type, int peer, void* comm, void* /*stream*/) {
  return add(static_cast<Comm*>(comm), {Kind::receive, nullptr, to, count, type, 0, peer});
}

}  // extern "C"
