// Collectives on Gloo. What it lacks is built from what it has:
//   - reduce_scatter, uneven all_gather and all_to_all: sends and receives, all at once, of bytes.
//     (As c10d's alltoallv and padded all_gather they are slower.)
//   - adding half precision: in f32, through a window of fixed size
//   - several tensors in one all_reduce: small ones go through the same window, large ones are
//     reduced where they lie
// Its traps: a failed group cannot be used again; its threads drop tensors some time after a wait
// has ended, so they get views without ownership.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/gloo_channel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "weft/base/error.h"
#include "weft/kernels/run_kernel.h"
#include "weft/launch/line_socket.h"
#include "weft/runtime/c10d_shim.h"
#include "weft/runtime/reduce.h"

namespace weft {
namespace {

using namespace c10d_shim;  // NOLINT(google-build-using-namespace): the names of one library

constexpr std::size_t kWindow = std::size_t{1} << 20U;
constexpr std::size_t kInPlaceFrom = std::size_t{256} << 10U;  // bytes of a piece

// The first line: libtorch adds pages of source places.
std::string short_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

template <typename Function>
auto guarded(const Function& function) {
  try {
    return function();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(short_text(error));
  }
}

Milliseconds milliseconds(double seconds) {
  return Milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.");
}

std::string environment(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text == nullptr ? "" : text;
}

c10::intrusive_ptr<GlooOptions> gloo_options(const Rendezvous& rendezvous) {
  auto options = GlooOptions::create(milliseconds(rendezvous.timeout_s));
  options->threads = 1;  // one collective of a group at a time
  const std::string interface = environment("GLOO_SOCKET_IFNAME");
  if (!interface.empty()) {
    options->devices.push_back(Gloo::createDeviceForInterface(interface));
  } else if (is_loopback(rendezvous.host)) {
    options->devices.push_back(Gloo::createDeviceForInterface("lo"));
  } else {
    options->devices.push_back(Gloo::createDefaultDevice());
  }
  return options;
}

// c10d waits a whole second before it tries again to reach a store that does not listen yet.
void await_store(const Rendezvous& rendezvous) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + milliseconds(rendezvous.timeout_s);
  while (Clock::now() < deadline) {
    const int fd = connect_to(rendezvous.host, rendezvous.port, 1.0);
    if (fd >= 0) {
      ::close(fd);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw PeerError(fmt::format("nobody has answered there for {:.3g} s", rendezvous.timeout_s));
}

class TcpStore final : public Store {
 public:
  explicit TcpStore(const Rendezvous& rendezvous) {
    // torchrun hosts a store itself, which outlives its restarts of the workers.
    const bool launcher_hosts = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(rendezvous.port);
    options.isServer = rendezvous.rank == 0 && !launcher_hosts;
    options.numWorkers = static_cast<std::size_t>(rendezvous.world);
    // The start of a job takes seconds; a rank that never comes should not hold the others for the
    // full timeout of a step.
    options.timeout = milliseconds(rendezvous.timeout_s);
    // It would wait for the others once, say nothing if they do not come, and wait again for what
    // they write.
    options.waitWorkers = false;
    if (!options.isServer) {
      await_store(rendezvous);
    }
    store_ = c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
    if (launcher_hosts) {
      store_ = c10::make_intrusive<c10d::PrefixStore>(
          "attempt " + environment("TORCHELASTIC_RESTART_COUNT"), store_);
    }
    compare_jobs(rendezvous);
  }
  void set(const std::string& key, const std::string& value) override {
    guarded(
        [&] { store_->set("weft/" + key, std::vector<std::uint8_t>(value.begin(), value.end())); });
  }
  std::string get(const std::string& key) override {
    return guarded([&] {
      const std::vector<std::uint8_t> value = store_->get("weft/" + key);
      return std::string(value.begin(), value.end());
    });
  }
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& c10d_store() const { return store_; }

 private:
  // A port may be taken by another job: its ranks would take ours for their own.
  void compare_jobs(const Rendezvous& rendezvous) {
    if (rendezvous.rank == 0) {
      set("job", rendezvous.job);
      return;
    }
    const std::string there = get("job");
    if (there != rendezvous.job) {
      fail_environment(
          "rank {}: at {}:{} is rank 0 of another job ('{}', this one is '{}'): give every job a "
          "MASTER_PORT of its own",
          rendezvous.rank, rendezvous.host, rendezvous.port, there, rendezvous.job);
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
};

at::Tensor bytes_of(std::span<std::byte> data) {
  return at::from_blob(data.data(), {static_cast<std::int64_t>(data.size())},
                       at::TensorOptions(at::kByte));
}

/// A c10d group, and what was started on it and has not been waited for.
class Group {
 public:
  Group(c10::intrusive_ptr<Gloo> gloo, double timeout_s)
      : gloo_(std::move(gloo)), timeout_(milliseconds(timeout_s)) {}

  Work start(std::span<std::byte> data, int member, int tag, bool sending) {
    std::vector<at::Tensor> list = {bytes_of(data)};
    Work work = guarded(
        [&] { return sending ? gloo_->send(list, member, tag) : gloo_->recv(list, member, tag); });
    const std::lock_guard lock(mutex_);
    under_way_.push_back(work);
    return work;
  }
  void finish(const Work& work) {
    const auto forget = [&] {
      const std::lock_guard lock(mutex_);
      std::erase(under_way_, work);
    };
    bool done = false;
    try {
      done = guarded([&] { return work->wait(timeout_); });
    } catch (...) {
      forget();
      throw;
    }
    forget();
    if (!done) {
      throw PeerError("it was aborted");
    }
  }
  void all_reduce(void* data, std::size_t count, at::ScalarType dtype, ReduceOp op) {
    std::vector<at::Tensor> list = {
        at::from_blob(data, {static_cast<std::int64_t>(count)}, at::TensorOptions(dtype))};
    c10d::AllreduceOptions options;
    options.reduceOp = op == ReduceOp::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
    guarded([&] { gloo_->allreduce(list, options)->wait(timeout_); });
  }
  void broadcast(std::span<std::byte> data, int root) {
    std::vector<at::Tensor> list = {bytes_of(data)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    guarded([&] { gloo_->broadcast(list, options)->wait(timeout_); });
  }
  void barrier() {
    guarded([&] { gloo_->barrier()->wait(timeout_); });
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    for (const Work& work : under_way_) {
      work->abort();
    }
  }

 private:
  c10::intrusive_ptr<Gloo> gloo_;
  Milliseconds timeout_;
  std::mutex mutex_;
  std::vector<Work> under_way_;
};

class GlooChannel final : public Channel {
 public:
  GlooChannel(const Members& members, std::shared_ptr<Group> group)
      : members_(members), n_(members.count()), group_(std::move(group)) {}

  [[nodiscard]] std::string_view name() const override { return "gloo"; }
  void all_reduce(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op) override;
  void reduce_scatter(const std::vector<Pieces>& parts, const Pieces& to, DType dtype,
                      ReduceOp op) override;
  void exchange(const std::vector<Pieces>& send, const std::vector<Pieces>& recv) override;
  void all_gather(const Pieces& send, const std::vector<Pieces>& recv) override {
    exchange(std::vector<Pieces>(n_, send), recv);
  }
  void broadcast(int root, const Pieces& data) override {
    for (const std::span<std::byte> piece : data.list()) {
      group_->broadcast(piece, root);
    }
  }
  void barrier() override { group_->barrier(); }
  void abort() override { group_->abort(); }

 private:
  void reduce_window(const Pieces& from, const Pieces& to, std::size_t begin, std::size_t end,
                     DType dtype, ReduceOp op);

  Members members_;
  int n_;
  std::shared_ptr<Group> group_;
  int next_tag_ = 0;  // of exchanges; all members count alike
  std::vector<std::byte> window_;
};

// Bytes [begin, end) of the pieces, packed; half precision as f32.
void GlooChannel::reduce_window(const Pieces& from, const Pieces& to, std::size_t begin,
                                std::size_t end, DType dtype, ReduceOp op) {
  const auto count = static_cast<std::int64_t>((end - begin) / element_bytes(dtype));
  const at::ScalarType type = scalar_type_of(dtype);
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  window_.resize(2 * kWindow + (half ? kWindow : 0));
  std::byte* packed = window_.data() + (half ? 2 * kWindow : 0);
  from.copy_to(packed, begin, end);
  if (!half) {
    group_->all_reduce(packed, count, type, op);
  } else {
    const at::Tensor narrow = at::from_blob(packed, {count}, at::TensorOptions(type));
    const at::Tensor wide = at::from_blob(window_.data(), {count}, at::TensorOptions(at::kFloat));
    wide.copy_(narrow);
    group_->all_reduce(window_.data(), count, at::kFloat, op);
    narrow.copy_(wide);
  }
  to.copy_from(packed, begin, end);
}

void GlooChannel::all_reduce(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op) {
  const bool half = dtype == DType::bf16 || dtype == DType::f16;
  std::size_t begin = 0;  // of what waits for the window
  std::size_t end = 0;
  const auto flush = [&] {
    for (; begin < end; begin = std::min(end, begin + kWindow)) {
      reduce_window(from, to, begin, std::min(end, begin + kWindow), dtype, op);
    }
  };
  for (std::size_t i = 0; i < to.list().size(); ++i) {
    const std::span<std::byte> source = from.list()[i];
    const std::span<std::byte> target = to.list()[i];
    if (half || target.size() < kInPlaceFrom) {
      end += target.size();
      continue;
    }
    flush();
    if (source.data() != target.data()) {
      std::memcpy(target.data(), source.data(), target.size());
    }
    group_->all_reduce(target.data(), target.size() / element_bytes(dtype), scalar_type_of(dtype),
                       op);
    begin = end = end + target.size();
  }
  flush();
}

void GlooChannel::exchange(const std::vector<Pieces>& send, const std::vector<Pieces>& recv) {
  const int tag = next_tag_;
  next_tag_ = (next_tag_ + 1) & 0x3fffffff;
  std::vector<Work> works;
  // Everybody begins with its right neighbour, so that no member is the target of all others at
  // once.
  for (int k = 1; k < n_; ++k) {
    const int from = (members_.self - k + n_) % n_;
    const int to = (members_.self + k) % n_;
    for (const std::span<std::byte> piece : recv[from].list()) {
      works.push_back(group_->start(piece, from, tag, false));
    }
    for (const std::span<std::byte> piece : send[to].list()) {
      works.push_back(group_->start(piece, to, tag, true));
    }
  }
  for (const Work& work : works) {
    group_->finish(work);
  }
}

// In rounds of a window from each member, added in the order of the members.
void GlooChannel::reduce_scatter(const std::vector<Pieces>& parts, const Pieces& to, DType dtype,
                                 ReduceOp op) {
  std::size_t longest = 0;
  for (const Pieces& part : parts) {
    longest = std::max(longest, part.bytes());
  }
  const Pieces& own = parts[members_.self];
  std::vector<std::byte> arrived(n_ * std::min(kWindow, own.bytes()));
  for (std::size_t begin = 0; begin < longest; begin += kWindow) {
    const auto cut = [&](const Pieces& pieces) {
      Pieces result;
      pieces.visit(std::min(begin, pieces.bytes()), std::min(begin + kWindow, pieces.bytes()),
                   [&](std::span<std::byte> piece) { result.add(piece.data(), piece.size()); });
      return result;
    };
    const Pieces mine = cut(own);
    std::vector<Pieces> send(n_);
    std::vector<Pieces> recv(n_);
    std::vector<const std::byte*> terms(n_);
    for (int m = 0; m < n_; ++m) {
      std::byte* place = arrived.data() + m * mine.bytes();
      terms[m] = place;
      if (m != members_.self) {
        send[m] = cut(parts[m]);
        for (const std::span<std::byte> piece : mine.list()) {  // as it is sent
          recv[m].add(place, piece.size());
          place += piece.size();
        }
      }
    }
    exchange(send, recv);
    if (mine.bytes() > 0) {
      std::byte* packed = arrived.data() + members_.self * mine.bytes();
      mine.copy_to(packed, 0, mine.bytes());
      reduce(dtype, op, terms, packed, mine.bytes());
      to.copy_from(packed, begin, begin + mine.bytes());
    }
  }
}

class GlooTransfer final : public Transfer {
 public:
  GlooTransfer(std::shared_ptr<Group> group, Work work)
      : group_(std::move(group)), work_(std::move(work)) {}
  void wait() override {
    if (work_) {
      group_->finish(work_);
      work_.reset();
    }
  }

 private:
  std::shared_ptr<Group> group_;
  Work work_;
};

class GlooMailbox final : public Mailbox {
 public:
  explicit GlooMailbox(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  std::unique_ptr<Transfer> send(int to, std::span<std::byte> data, int tag) override {
    return std::make_unique<GlooTransfer>(group_, group_->start(data, to, tag | kTransfers, true));
  }
  std::unique_ptr<Transfer> receive(int from, std::span<std::byte> data, int tag) override {
    return std::make_unique<GlooTransfer>(group_,
                                          group_->start(data, from, tag | kTransfers, false));
  }
  void abort() override { group_->abort(); }

 private:
  // Exchanges of the group have tags too: those of transfers begin above them.
  static constexpr int kTransfers = 0x40000000;
  std::shared_ptr<Group> group_;
};

}  // namespace

struct GlooHost::Impl {
  Rendezvous rendezvous;
  TcpStore store;
  c10::intrusive_ptr<GlooOptions> options = {};
  std::map<std::string, std::shared_ptr<Group>> groups = {};  // by name

  std::shared_ptr<Group> connect(const Members& members) {
    std::shared_ptr<Group>& group = groups[members.name];
    if (!group) {
      guarded([&] {
        if (!options) {
          options = gloo_options(rendezvous);
        }
        group = std::make_shared<Group>(
            c10::make_intrusive<Gloo>(
                c10::make_intrusive<c10d::PrefixStore>(members.name, store.c10d_store()),
                members.self, members.count(), options),
            members.timeout_s);
      });
    }
    return group;
  }
};

GlooHost::GlooHost(const Rendezvous& rendezvous)
    : impl_(guarded([&] {
        return std::make_unique<Impl>(
            Impl{.rendezvous = rendezvous, .store = TcpStore(rendezvous)});
      })) {
}

GlooHost::~GlooHost() = default;

Store& GlooHost::store() {
  return impl_->store;
}

std::unique_ptr<Channel> GlooHost::make_channel(const Members& members) {
  return std::make_unique<GlooChannel>(members, impl_->connect(members));
}

std::unique_ptr<Mailbox> GlooHost::make_mailbox(const Members& members) {
  return std::make_unique<GlooMailbox>(impl_->connect(members));
}

}  // namespace weft
