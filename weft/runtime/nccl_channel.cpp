// NCCL without its headers and without CUDA's: the functions are found by name at run time and
// declared here, as the library's C interface has them since version 2.7.
//
// All operations go to the device's default stream, which is ordered with all of libtorch's work on
// it; the host waits by asking the stream again and again, with pauses, so that deadlines and
// abort() hold. Unequal parts: a reduce_scatter is one ncclReduce for each member, the exchanges
// are sends and receives, each in one group call.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/nccl_channel.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "weft/base/error.h"

namespace weft {
namespace {

struct UniqueId {
  char bytes[128] = {};
};
using Comm = void*;
using Cuda = void*;  // a cudaStream_t; null is the default stream
using Result = int;  // 0: success

struct Library {
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*init_rank)(Comm*, int, UniqueId, int) = nullptr;
  Result (*abort)(Comm) = nullptr;
  Result (*async_error)(Comm, Result*) = nullptr;
  const char* (*error_text)(Result) = nullptr;
  Result (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, Cuda) = nullptr;
  Result (*reduce)(const void*, void*, std::size_t, int, int, int, Comm, Cuda) = nullptr;
  Result (*broadcast)(const void*, void*, std::size_t, int, int, Comm, Cuda) = nullptr;
  Result (*send)(const void*, std::size_t, int, int, Comm, Cuda) = nullptr;
  Result (*receive)(void*, std::size_t, int, int, Comm, Cuda) = nullptr;
  Result (*group_begin)() = nullptr;
  Result (*group_end)() = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Library& l) {
  return find(library, "ncclGetUniqueId", l.get_unique_id) &&
         find(library, "ncclCommInitRank", l.init_rank) &&
         find(library, "ncclCommAbort", l.abort) &&
         find(library, "ncclCommGetAsyncError", l.async_error) &&
         find(library, "ncclGetErrorString", l.error_text) &&
         find(library, "ncclAllReduce", l.all_reduce) && find(library, "ncclReduce", l.reduce) &&
         find(library, "ncclBroadcast", l.broadcast) && find(library, "ncclSend", l.send) &&
         find(library, "ncclRecv", l.receive) && find(library, "ncclGroupStart", l.group_begin) &&
         find(library, "ncclGroupEnd", l.group_end);
}

bool load(Library& l) {
  const char* file = std::getenv("WEFT_NCCL");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (file == nullptr && find_all(RTLD_DEFAULT, l)) {
    return true;
  }
  void* library = ::dlopen(file != nullptr ? file : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && find_all(library, l);
}

// ncclDataType_t
int number_of(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return 1;
    case DType::i32:
      return 2;
    case DType::i64:
      return 4;
    case DType::f16:
      return 6;
    case DType::f32:
      return 7;
    case DType::f64:
      return 8;
    case DType::bf16:
      return 9;
  }
  return 1;
}

int number_of(ReduceOp op) {  // ncclRedOp_t
  return op == ReduceOp::sum ? 0 : 2;
}

constexpr int kBytes = 1;  // ncclUint8

class NcclChannel final : public Channel {
 public:
  NcclChannel(const Members& members, const Library& library, const UniqueId& id)
      : members_(members), n_(members.count()), nccl_(library) {
    Comm comm = nullptr;
    check(nccl_.init_rank(&comm, n_, id, members.self));
    comm_ = comm;
  }
  ~NcclChannel() override { abort(); }
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;
  NcclChannel(NcclChannel&&) = delete;
  NcclChannel& operator=(NcclChannel&&) = delete;

  [[nodiscard]] std::string_view name() const override { return "nccl"; }

  void all_reduce(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op) override {
    together([&] {
      for (std::size_t i = 0; i < from.list().size(); ++i) {
        const std::span<std::byte> source = from.list()[i];
        check(nccl_.all_reduce(source.data(), to.list()[i].data(),
                               source.size() / element_bytes(dtype), number_of(dtype),
                               number_of(op), comm_, nullptr));
      }
    });
  }
  void reduce_scatter(const std::vector<Pieces>& parts, const Pieces& to, DType dtype,
                      ReduceOp op) override {
    together([&] {
      for (int m = 0; m < n_; ++m) {
        for (std::size_t i = 0; i < parts[m].list().size(); ++i) {
          const std::span<std::byte> part = parts[m].list()[i];
          void* target = m == members_.self ? to.list()[i].data() : nullptr;
          check(nccl_.reduce(part.data(), target, part.size() / element_bytes(dtype),
                             number_of(dtype), number_of(op), m, comm_, nullptr));
        }
      }
    });
  }
  void exchange(const std::vector<Pieces>& send, const std::vector<Pieces>& recv) override {
    together([&] {
      for (int m = 0; m < n_; ++m) {
        if (m == members_.self) {
          continue;
        }
        for (const std::span<std::byte> piece : send[m].list()) {
          check(nccl_.send(piece.data(), piece.size(), kBytes, m, comm_, nullptr));
        }
        for (const std::span<std::byte> piece : recv[m].list()) {
          check(nccl_.receive(piece.data(), piece.size(), kBytes, m, comm_, nullptr));
        }
      }
    });
  }
  void all_gather(const Pieces& send, const std::vector<Pieces>& recv) override {
    exchange(std::vector<Pieces>(n_, send), recv);
  }
  void broadcast(int root, const Pieces& data) override {
    together([&] {
      for (const std::span<std::byte> piece : data.list()) {
        check(nccl_.broadcast(piece.data(), piece.data(), piece.size(), kBytes, root, comm_,
                              nullptr));
      }
    });
  }
  // Everybody sends nothing worth knowing to everybody.
  void barrier() override {
    if (!token_.defined()) {
      token_ = at::zeros({n_ + 1}, at::TensorOptions(at::kByte).device(device_type()));
    }
    auto* bytes = static_cast<std::byte*>(token_.data_ptr());
    std::vector<Pieces> send(n_);
    std::vector<Pieces> recv(n_);
    for (int m = 0; m < n_; ++m) {
      send[m].add(bytes + n_, 1);
      recv[m].add(bytes + m, 1);
    }
    exchange(send, recv);
  }
  void abort() override {
    aborted_ = true;
    if (Comm comm = comm_.exchange(nullptr); comm != nullptr) {
      nccl_.abort(comm);
    }
  }

 private:
  static c10::DeviceType device_type() {
    return at::hasCUDA() ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  }
  void check(Result result) const {
    if (result != 0) {
      throw PeerError(fmt::format("NCCL: {}", nccl_.error_text(result)));
    }
  }
  template <typename Function>
  void together(const Function& function) {
    if (aborted_) {
      throw PeerError("it was aborted");
    }
    check(nccl_.group_begin());
    function();
    check(nccl_.group_end());
    wait();
  }
  void wait();

  Members members_;
  int n_;
  Library nccl_;
  std::atomic<Comm> comm_ = nullptr;
  std::atomic<bool> aborted_ = false;
  at::Tensor token_;
};

void NcclChannel::wait() {
  if (device_type() == c10::DeviceType::CPU) {
    return;  // a stand-in that works on memory of the host is done when its calls are
  }
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  const c10::Stream stream = guard.getDefaultStream(guard.getDevice());
  const auto begin = std::chrono::steady_clock::now();
  while (!stream.query()) {
    const Comm comm = comm_;
    if (comm == nullptr) {
      throw PeerError("it was aborted");
    }
    Result error = 0;
    check(nccl_.async_error(comm, &error));
    check(error);
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >
        members_.timeout_s) {
      throw PeerError(fmt::format("a rank of {} did not come within {:.3g} s",
                                  fmt::join(members_.ranks, ","), members_.timeout_s));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

std::unique_ptr<Channel> make_nccl_channel(Store& store, const Members& members) {
  Library library;
  const bool found = load(library);
  if (!all_agree(store, members, "nccl", found)) {
    fail_environment(
        "NCCL is missing on {}: give libtorch with CUDA, libnccl.so.2, or its file as WEFT_NCCL",
        found ? "another rank" : "this rank");
  }
  const std::string key = members.name + "/nccl id";
  UniqueId id;
  if (members.self == 0) {
    if (library.get_unique_id(&id) != 0) {
      fail_environment("NCCL cannot make an id for {}", members.name);
    }
    store.set(key, std::string(id.bytes, sizeof id.bytes));
  } else {
    store.get(key).copy(id.bytes, sizeof id.bytes);
  }
  return std::make_unique<NcclChannel>(members, library, id);
}

}  // namespace weft
