// The only file that includes c10d. Gloo's traps that it works around:
//   - reduce_scatter and uneven all_gather do not exist: everything but all_reduce is made of sends
//   and receives
//   - a non-contiguous tensor silently gives wrong numbers: checked
//   - a failed group cannot be used again: the process ends
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/communicator.h"

#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace weft {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Work = c10::intrusive_ptr<c10d::Work>;

// The first line: libtorch adds pages of source places.
std::string short_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

template <typename Function>
auto guarded(const std::string& what, const Function& function) {
  try {
    return function();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(fmt::format("{} failed: {}", what, short_text(error)));
  }
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.");
}

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(const Rendezvous& rendezvous) {
  auto options = c10d::ProcessGroupGloo::Options::create(
      Milliseconds(static_cast<std::int64_t>(rendezvous.timeout_s * 1000)));
  options->threads = 1;                                       // one collective of a group at a time
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe)
  if (interface != nullptr && *interface != '\0') {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  } else if (is_loopback(rendezvous.host)) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface("lo"));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  return options;
}

struct Group {
  std::vector<int> ranks;
  int self = 0;
  int next_tag = 0;                                      // of exchanges; all members count alike
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo = {};  // none for a group of one
};

void check_tensor(const at::Tensor& tensor) {
  WEFT_CHECK(tensor.defined() && tensor.is_contiguous() && tensor.device().is_cpu());
}

}  // namespace

struct Communicator::Impl {
  Rendezvous rendezvous;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options;
  std::vector<Group> groups;
  std::map<std::vector<int>, int> known;
  std::mutex mutex;
  std::vector<Work> under_way;  // transfers, for abort

  [[nodiscard]] Milliseconds timeout() const {
    return Milliseconds(static_cast<std::int64_t>(rendezvous.timeout_s * 1000));
  }
  void connect();
  void finish(const Work& work);
  Work start(Group& group, int member, const at::Tensor& tensor, int tag, bool sending);
};

namespace {

class GlooTransfer final : public Transfer {
 public:
  using Finish = std::function<void(const Work&)>;
  GlooTransfer(Work work, Finish finish, std::string what)
      : work_(std::move(work)), finish_(std::move(finish)), what_(std::move(what)) {}
  void wait() override {
    if (work_) {
      guarded(what_, [&] { finish_(work_); });
      work_.reset();
    }
  }

 private:
  Work work_;
  Finish finish_;
  std::string what_;
};

class NoTransfer final : public Transfer {
 public:
  void wait() override {}
};

}  // namespace

void Communicator::Impl::connect() {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<std::uint16_t>(rendezvous.port);
  store_options.isServer = rendezvous.rank == 0;
  store_options.numWorkers = static_cast<std::size_t>(rendezvous.world);
  // The start of a job takes seconds; a rank that never comes should not hold the others for the
  // full timeout of a step.
  store_options.timeout = timeout();
  store = c10::make_intrusive<c10d::TCPStore>(rendezvous.host, store_options);
  options = gloo_options(rendezvous);
}

Work Communicator::Impl::start(Group& group, int member, const at::Tensor& tensor, int tag,
                               bool sending) {
  check_tensor(tensor);
  std::vector<at::Tensor> list = {tensor};
  Work work = sending ? group.gloo->send(list, member, tag) : group.gloo->recv(list, member, tag);
  const std::lock_guard lock(mutex);
  under_way.push_back(work);
  return work;
}

void Communicator::Impl::finish(const Work& work) {
  const auto forget = [&] {
    const std::lock_guard lock(mutex);
    std::erase(under_way, work);
  };
  bool done = false;
  try {
    done = work->wait(timeout());
  } catch (...) {
    forget();
    throw;
  }
  forget();
  if (!done) {
    throw PeerError("a transfer was aborted");
  }
}

Communicator::Communicator(const Rendezvous& rendezvous) : impl_(std::make_unique<Impl>()) {
  impl_->rendezvous = rendezvous;
  WEFT_CHECK(rendezvous.rank >= 0 && rendezvous.rank < rendezvous.world);
  std::vector<int> all(rendezvous.world);
  for (int r = 0; r < rendezvous.world; ++r) {
    all[r] = r;
  }
  if (rendezvous.world > 1) {
    guarded(fmt::format("meeting {} ranks at {}:{}", rendezvous.world, rendezvous.host,
                        rendezvous.port),
            [&] { impl_->connect(); });
  }
  join(all);
}

Communicator::~Communicator() = default;

int Communicator::rank() const {
  return impl_->rendezvous.rank;
}

int Communicator::world() const {
  return impl_->rendezvous.world;
}

int Communicator::join(const std::vector<int>& ranks) {
  if (const auto it = impl_->known.find(ranks); it != impl_->known.end()) {
    return it->second;
  }
  const auto self = std::ranges::find(ranks, rank());
  WEFT_CHECK(self != ranks.end());
  Group group{.ranks = ranks, .self = static_cast<int>(self - ranks.begin())};
  if (ranks.size() > 1) {
    const std::string name = fmt::format("group {}", fmt::join(ranks, ","));
    guarded("connecting " + name, [&] {
      group.gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>(name, impl_->store), group.self,
          static_cast<int>(ranks.size()), impl_->options);
    });
  }
  const int id = static_cast<int>(impl_->groups.size());
  impl_->groups.push_back(std::move(group));
  impl_->known.emplace(ranks, id);
  return id;
}

void Communicator::all_reduce(int group_id, const at::Tensor& tensor) {
  Group& group = impl_->groups[group_id];
  check_tensor(tensor);
  if (!group.gloo || tensor.numel() == 0) {
    return;
  }
  guarded("all_reduce", [&] {
    // Gloo's thread drops its list some time after the wait ends: it gets a tensor without
    // ownership, so that the caller's memory is given back when the caller says so.
    std::vector<at::Tensor> list = {
        at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.options())};
    group.gloo->allreduce(list)->wait(impl_->timeout());
  });
}

void Communicator::exchange(int group_id, const std::vector<std::vector<at::Tensor>>& send,
                            const std::vector<std::vector<at::Tensor>>& recv) {
  Group& group = impl_->groups[group_id];
  const int n = static_cast<int>(group.ranks.size());
  WEFT_CHECK(static_cast<int>(send.size()) == n && static_cast<int>(recv.size()) == n);
  if (!group.gloo) {
    return;
  }
  const int tag = group.next_tag;
  group.next_tag = (group.next_tag + 1) & 0x3fffffff;
  guarded("exchange", [&] {
    std::vector<Work> works;
    // Everybody begins with its right neighbour, so that no member is the target of all others at
    // once.
    for (int k = 1; k < n; ++k) {
      const int from = (group.self - k + n) % n;
      const int to = (group.self + k) % n;
      for (const at::Tensor& tensor : recv[from]) {
        if (tensor.numel() > 0) {
          works.push_back(impl_->start(group, from, tensor, tag, false));
        }
      }
      for (const at::Tensor& tensor : send[to]) {
        if (tensor.numel() > 0) {
          works.push_back(impl_->start(group, to, tensor, tag, true));
        }
      }
    }
    for (const Work& work : works) {
      impl_->finish(work);
    }
  });
}

std::unique_ptr<Transfer> Communicator::send(int to, const at::Tensor& tensor, int tag) {
  if (tensor.numel() == 0) {
    return std::make_unique<NoTransfer>();
  }
  const std::string what = fmt::format("send to rank {}", to);
  return guarded(what, [&]() -> std::unique_ptr<Transfer> {
    // Exchanges of the world group have tags too: those of transfers begin above them.
    Work work = impl_->start(impl_->groups[0], to, tensor, tag | 0x40000000, true);
    return std::make_unique<GlooTransfer>(
        std::move(work), [impl = impl_.get()](const Work& w) { impl->finish(w); }, what);
  });
}

std::unique_ptr<Transfer> Communicator::receive(int from, const at::Tensor& tensor, int tag) {
  if (tensor.numel() == 0) {
    return std::make_unique<NoTransfer>();
  }
  const std::string what = fmt::format("receive from rank {}", from);
  return guarded(what, [&]() -> std::unique_ptr<Transfer> {
    Work work = impl_->start(impl_->groups[0], from, tensor, tag | 0x40000000, false);
    return std::make_unique<GlooTransfer>(
        std::move(work), [impl = impl_.get()](const Work& w) { impl->finish(w); }, what);
  });
}

void Communicator::barrier() {
  Group& world = impl_->groups[0];
  if (world.gloo) {
    guarded("barrier", [&] { world.gloo->barrier()->wait(impl_->timeout()); });
  }
}

void Communicator::abort() {
  const std::lock_guard lock(impl_->mutex);
  for (const Work& work : impl_->under_way) {
    work->abort();
  }
}

}  // namespace weft
