// Tensors become memory here, and a group gets its channel: shared memory if all its members are on
// one host, else Gloo. What each rank knows of the others (where they are, what they were told to
// use) goes through the store once, so that all members decide alike.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "weft/kernels/run_kernel.h"
#include "weft/runtime/channel.h"
#include "weft/runtime/gloo_channel.h"
#include "weft/runtime/nccl_channel.h"
#include "weft/runtime/shm_channel.h"
#include "weft/runtime/shm_segment.h"

namespace weft {
namespace {

using Tensors = Communicator::Tensors;

template <typename Function>
auto named(const std::string& what, const Function& function) {
  try {
    return function();
  } catch (const PeerError& error) {
    throw PeerError(fmt::format("{} failed: {}", what, error.what()));
  }
}

/// The memory of tensors. Those that are not contiguous are packed; `unpack` brings back what was
/// written.
class Memory {
 public:
  /// For a channel that takes memory of devices.
  explicit Memory(const Channel* channel)
      : on_devices_(channel != nullptr && channel->name() == "nccl") {}
  Memory() = default;
  void read(Pieces& pieces, const at::Tensor& tensor) { add(pieces, tensor, true, false); }
  void write(Pieces& pieces, const at::Tensor& tensor) { add(pieces, tensor, false, true); }
  void change(Pieces& pieces, const at::Tensor& tensor) { add(pieces, tensor, true, true); }
  void unpack() {
    for (const Packed& p : packed_) {
      if (p.written) {
        p.tensor.copy_(p.buffer);
      }
    }
  }

 private:
  struct Packed {
    at::Tensor tensor;
    at::Tensor buffer;
    bool written = false;
  };

  void add(Pieces& pieces, const at::Tensor& tensor, bool is_read, bool is_written) {
    if (!tensor.defined() || tensor.numel() == 0) {
      return;
    }
    WEFT_CHECK(tensor.device().is_cpu() || on_devices_);
    if (tensor.is_contiguous()) {
      pieces.add(tensor.data_ptr(), tensor.nbytes());
      return;
    }
    at::Tensor buffer = at::empty(tensor.sizes(), tensor.options());
    if (is_read) {
      buffer.copy_(tensor);
    }
    pieces.add(buffer.data_ptr(), buffer.nbytes());
    packed_.push_back({.tensor = tensor, .buffer = buffer, .written = is_written});
  }

  bool on_devices_ = false;
  std::vector<Packed> packed_;
};

/// A transfer and the tensor it reads or fills.
class TensorTransfer final : public Transfer {
 public:
  TensorTransfer(at::Tensor tensor, std::string what)
      : tensor_(std::move(tensor)), what_(std::move(what)) {}
  Pieces pieces(bool sending) {
    Pieces result;
    if (sending) {
      memory_.read(result, tensor_);
    } else {
      memory_.write(result, tensor_);
    }
    return result;
  }
  void begin(std::unique_ptr<Transfer> transfer) { transfer_ = std::move(transfer); }
  void wait() override {
    if (transfer_) {
      named(what_, [&] { transfer_->wait(); });
      transfer_.reset();
      memory_.unpack();
    }
    memory_ = {};
    tensor_.reset();
  }

 private:
  at::Tensor tensor_;
  std::string what_;
  Memory memory_;
  std::unique_ptr<Transfer> transfer_ = nullptr;  // last: ends first
};

std::string wanted_path(const Rendezvous& rendezvous) {
  const char* text = std::getenv("WEFT_COMM");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const std::string path = rendezvous.path.empty() && text != nullptr ? text : rendezvous.path;
  require(path.empty() || path == "shm" || path == "gloo" || path == "nccl",
          "WEFT_COMM={}: ranks can talk by shm, gloo or nccl", path);
  return path;
}

struct Group {
  Members members;
  std::unique_ptr<Channel> channel = nullptr;  // none for a group of one
};

}  // namespace

struct Communicator::Impl {
  Rendezvous rendezvous;
  std::string wanted;
  std::unique_ptr<GlooHost> host;   // none for a world of one
  std::vector<std::string> places;  // host identity by rank
  std::vector<Group> groups;
  std::map<std::vector<int>, int> known;
  std::vector<int> neighbours;              // ranks on this host, with this one
  std::unique_ptr<Mailbox> near = nullptr;  // among neighbours
  std::unique_ptr<Mailbox> far = nullptr;   // among all

  void meet(const std::vector<int>& all);
  void connect_mailboxes();
  [[nodiscard]] bool share_a_host(const std::vector<int>& ranks) const {
    return std::ranges::all_of(ranks, [&](int r) { return places[r] == places[ranks[0]]; });
  }
  [[nodiscard]] Members members_of(const std::string& name, const std::vector<int>& ranks) const {
    const auto self = std::ranges::find(ranks, rendezvous.rank);
    WEFT_CHECK(self != ranks.end());
    return {.name = name,
            .ranks = ranks,
            .self = static_cast<int>(self - ranks.begin()),
            .timeout_s = rendezvous.timeout_s};
  }
  [[nodiscard]] std::unique_ptr<Channel> connect(const Members& members);
  [[nodiscard]] Channel* channel(int group) const { return groups[group].channel.get(); }
  std::unique_ptr<Transfer> transfer(int peer, const at::Tensor& tensor, int tag, bool sending);
};

// Places and wishes of all ranks. If two wishes differ, every rank finds one unlike its own.
void Communicator::Impl::meet(const std::vector<int>& all) {
  Store& store = host->store();
  const auto key = [](int rank) { return fmt::format("rank/{}", rank); };
  store.set(key(rendezvous.rank), wanted + "\n" + host_identity());
  for (const int rank : all) {
    const std::string note = store.get(key(rank));
    const std::size_t end = note.find('\n');
    const std::string other = note.substr(0, end);
    if (other != wanted) {
      await_all_know(store, members_of("world", all), "path");
    }
    require(other == wanted,
            "WEFT_COMM is \"{}\" on rank {} but \"{}\" on rank {}: it must be the same on all",
            wanted, rendezvous.rank, other, rank);
    places.push_back(note.substr(end + 1));
    if (places.back() == host_identity()) {
      neighbours.push_back(rank);
    }
  }
}

std::unique_ptr<Channel> Communicator::Impl::connect(const Members& members) {
  if (wanted == "nccl") {
    return make_nccl_channel(host->store(), members);
  }
  if (wanted != "gloo" && share_a_host(members.ranks)) {
    if (auto shared = make_shm_channel(host->store(), members)) {
      return shared;
    }
  }
  if (wanted == "shm") {
    fail_environment("WEFT_COMM=shm: ranks {} cannot share memory", fmt::join(members.ranks, ","));
  }
  return host->make_channel(members);
}

void Communicator::Impl::connect_mailboxes() {
  if (wanted != "gloo" && neighbours.size() > 1) {
    const std::string name = fmt::format("transfers {}", fmt::join(neighbours, ","));
    near = make_shm_mailbox(host->store(), members_of(name, neighbours));
  }
  // All or none make the mailbox of the world: it connects everybody with everybody.
  if (!all_agree(host->store(), groups[0].members, "near",
                 near != nullptr && static_cast<int>(neighbours.size()) == rendezvous.world)) {
    far = host->make_mailbox(groups[0].members);
  }
}

Communicator::Communicator(const Rendezvous& rendezvous) : impl_(std::make_unique<Impl>()) {
  WEFT_CHECK(rendezvous.rank >= 0 && rendezvous.rank < rendezvous.world);
  impl_->rendezvous = rendezvous;
  impl_->wanted = wanted_path(rendezvous);
  std::vector<int> all(rendezvous.world);
  for (int r = 0; r < rendezvous.world; ++r) {
    all[r] = r;
  }
  if (rendezvous.world > 1) {
    named(fmt::format("meeting {} ranks at {}:{}", rendezvous.world, rendezvous.host,
                      rendezvous.port),
          [&] {
            impl_->host = std::make_unique<GlooHost>(rendezvous);
            impl_->meet(all);
          });
  }
  join(all);
  if (rendezvous.world > 1) {
    named("connecting transfers", [&] { impl_->connect_mailboxes(); });
  }
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
  const std::string name = fmt::format("group {}", fmt::join(ranks, ","));
  Group group{.members = impl_->members_of(name, ranks)};
  if (ranks.size() > 1) {
    group.channel = named("connecting " + name, [&] { return impl_->connect(group.members); });
  }
  const int id = static_cast<int>(impl_->groups.size());
  impl_->groups.push_back(std::move(group));
  impl_->known.emplace(ranks, id);
  return id;
}

std::string_view Communicator::path(int group) const {
  const Channel* channel = impl_->channel(group);
  return channel == nullptr ? "none" : channel->name();
}

void Communicator::all_reduce(int group, const at::Tensor& tensor, ReduceOp op) {
  all_reduce(group, Tensors{tensor}, Tensors{tensor}, op);
}

void Communicator::all_reduce(int group, const Tensors& from, const Tensors& to, ReduceOp op) {
  WEFT_CHECK(from.size() == to.size());
  Channel* channel = impl_->channel(group);
  Memory memory(channel);
  Pieces source;
  Pieces target;
  for (std::size_t i = 0; i < from.size(); ++i) {
    WEFT_CHECK(from[i].sizes() == to[i].sizes() && from[i].scalar_type() == to[i].scalar_type() &&
               from[i].scalar_type() == from[0].scalar_type());
    // In place is what the same contiguous memory says.
    memory.read(source, from[i]);
    memory.write(target, to[i]);
  }
  if (channel != nullptr && source.bytes() > 0) {
    named("all_reduce",
          [&] { channel->all_reduce(source, target, dtype_of(from[0].scalar_type()), op); });
  } else if (!(source == target)) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      to[i].copy_(from[i]);
    }
    return;
  }
  memory.unpack();
}

void Communicator::reduce_scatter(int group, const Tensors& parts, const at::Tensor& to,
                                  ReduceOp op) {
  std::vector<Tensors> lists;
  for (const at::Tensor& part : parts) {
    lists.push_back({part});
  }
  reduce_scatter(group, lists, Tensors{to}, op);
}

void Communicator::reduce_scatter(int group, const std::vector<Tensors>& parts, const Tensors& to,
                                  ReduceOp op) {
  const Members& members = impl_->groups[group].members;
  WEFT_CHECK(static_cast<int>(parts.size()) == members.count());
  Channel* channel = impl_->channel(group);
  Memory memory(channel);
  std::vector<Pieces> send(parts.size());
  Pieces target;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const at::Tensor& own = parts[members.self][i];
    WEFT_CHECK(own.numel() == to[i].numel() && own.scalar_type() == to[0].scalar_type());
    memory.write(target, to[i]);
    for (std::size_t m = 0; m < parts.size(); ++m) {
      memory.read(send[m], parts[m][i]);
    }
  }
  if (channel != nullptr && !to.empty()) {
    named("reduce_scatter",
          [&] { channel->reduce_scatter(send, target, dtype_of(to[0].scalar_type()), op); });
    memory.unpack();
    return;
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i].copy_(parts[0][i]);
  }
}

void Communicator::all_gather(int group, const at::Tensor& from, const Tensors& to) {
  const int self = impl_->groups[group].members.self;
  std::vector<Tensors> recv;
  for (const at::Tensor& part : to) {
    recv.push_back({part});
  }
  all_gather(group, Tensors{from}, recv);
  if (!to[self].is_same(from) && to[self].numel() > 0) {
    to[self].copy_(from);
  }
}

void Communicator::all_gather(int group, const Tensors& from, const std::vector<Tensors>& to) {
  const Members& members = impl_->groups[group].members;
  WEFT_CHECK(static_cast<int>(to.size()) == members.count());
  Channel* channel = impl_->channel(group);
  if (channel == nullptr) {
    return;
  }
  Memory memory(channel);
  Pieces out;
  std::vector<Pieces> in(to.size());
  for (const at::Tensor& tensor : from) {
    memory.read(out, tensor);
  }
  for (std::size_t m = 0; m < to.size(); ++m) {
    for (const at::Tensor& tensor : to[m]) {
      if (static_cast<int>(m) != members.self) {
        memory.write(in[m], tensor);
      }
    }
  }
  named("all_gather", [&] { channel->all_gather(out, in); });
  memory.unpack();
}

void Communicator::all_to_all(int group, const Tensors& send, const Tensors& recv) {
  const int self = impl_->groups[group].members.self;
  std::vector<Tensors> out;
  std::vector<Tensors> in;
  for (std::size_t m = 0; m < send.size(); ++m) {
    out.push_back({send[m]});
    in.push_back({recv[m]});
  }
  exchange(group, out, in);
  if (!recv[self].is_same(send[self]) && recv[self].numel() > 0) {
    recv[self].copy_(send[self]);
  }
}

void Communicator::exchange(int group, const std::vector<Tensors>& send,
                            const std::vector<Tensors>& recv) {
  Channel* channel = impl_->channel(group);
  const Members& members = impl_->groups[group].members;
  const auto n = static_cast<std::size_t>(members.count());
  WEFT_CHECK(send.size() == n && recv.size() == n);
  if (channel == nullptr) {
    return;
  }
  Memory memory(channel);
  std::vector<Pieces> out(n);
  std::vector<Pieces> in(n);
  for (std::size_t m = 0; m < n; ++m) {
    if (static_cast<int>(m) == members.self) {
      continue;
    }
    for (const at::Tensor& tensor : send[m]) {
      memory.read(out[m], tensor);
    }
    for (const at::Tensor& tensor : recv[m]) {
      memory.write(in[m], tensor);
    }
  }
  named("exchange", [&] { channel->exchange(out, in); });
  memory.unpack();
}

void Communicator::broadcast(int group, int root, const at::Tensor& tensor) {
  Channel* channel = impl_->channel(group);
  Memory memory(channel);
  Pieces pieces;
  if (channel == nullptr || tensor.numel() == 0) {
    return;
  }
  memory.change(pieces, tensor);
  named("broadcast", [&] { channel->broadcast(root, pieces); });
  memory.unpack();
}

void Communicator::barrier(int group) {
  if (Channel* channel = impl_->channel(group); channel != nullptr) {
    named("barrier", [&] { channel->barrier(); });
  }
}

std::unique_ptr<Transfer> Communicator::Impl::transfer(int peer, const at::Tensor& tensor, int tag,
                                                       bool sending) {
  const std::string what =
      fmt::format(fmt::runtime(sending ? "send to rank {}" : "receive from rank {}"), peer);
  auto transfer = std::make_unique<TensorTransfer>(tensor, what);
  const Pieces pieces = transfer->pieces(sending);
  if (pieces.bytes() == 0) {
    return transfer;
  }
  named(what, [&] {
    const std::span<std::byte> data = pieces.list()[0];
    const auto place = std::ranges::find(neighbours, peer);
    const bool close = near != nullptr && place != neighbours.end();
    Mailbox& box = close ? *near : *far;
    const int to = close ? static_cast<int>(place - neighbours.begin()) : peer;
    transfer->begin(sending ? box.send(to, data, tag) : box.receive(to, data, tag));
  });
  return transfer;
}

std::unique_ptr<Transfer> Communicator::send(int to, const at::Tensor& tensor, int tag) {
  return impl_->transfer(to, tensor, tag, true);
}

std::unique_ptr<Transfer> Communicator::receive(int from, const at::Tensor& tensor, int tag) {
  return impl_->transfer(from, tensor, tag, false);
}

void Communicator::abort() {
  for (const Group& group : impl_->groups) {
    if (group.channel) {
      group.channel->abort();
    }
  }
  for (Mailbox* box : {impl_->near.get(), impl_->far.get()}) {
    if (box != nullptr) {
      box->abort();
    }
  }
}

}  // namespace weft
