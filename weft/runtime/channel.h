#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/graph/type.h"
#include "weft/runtime/communicator.h"

// The seam behind Communicator: memory instead of tensors, one group at a time. One implementation
// for each way to move bytes.
namespace weft {

/// Pieces of memory that count as one run of bytes, one behind the other.
class Pieces {
 public:
  Pieces() = default;
  void add(void* data, std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] const std::vector<std::span<std::byte>>& list() const { return list_; }
  /// Calls visit(memory) for the parts of the pieces that make up bytes [begin, end).
  template <typename Visit>
  void visit(std::size_t begin, std::size_t end, const Visit& visit) const {
    for (std::size_t i = find(begin); begin < end; ++i) {
      const std::size_t first = begin - (i == 0 ? 0 : ends_[i - 1]);
      const std::size_t count = std::min(end - begin, list_[i].size() - first);
      visit(list_[i].subspan(first, count));
      begin += count;
    }
  }
  void copy_to(std::byte* to, std::size_t begin, std::size_t end) const;
  void copy_from(const std::byte* from, std::size_t begin, std::size_t end) const;
  friend bool operator==(const Pieces& a, const Pieces& b);

 private:
  [[nodiscard]] std::size_t find(std::size_t byte) const;  // the piece that holds it
  std::vector<std::span<std::byte>> list_;
  std::vector<std::size_t> ends_;
};

/// Collectives of one group of at least two members. The members' calls come in the same order,
/// from one thread at a time. All throw PeerError.
class Channel {
 public:
  virtual ~Channel() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// `to` is `from`, or shares no memory with it.
  virtual void all_reduce(const Pieces& from, const Pieces& to, DType dtype, ReduceOp op) = 0;
  /// parts by member; `to` is as long as the own part and may be the same memory.
  virtual void reduce_scatter(const std::vector<Pieces>& parts, const Pieces& to, DType dtype,
                              ReduceOp op) = 0;
  /// By member; what stands under the own number is skipped.
  virtual void exchange(const std::vector<Pieces>& send, const std::vector<Pieces>& recv) = 0;
  /// The same bytes to everybody.
  virtual void all_gather(const Pieces& send, const std::vector<Pieces>& recv) = 0;
  virtual void broadcast(int root, const Pieces& data) = 0;
  virtual void barrier() = 0;
  /// From any thread.
  virtual void abort() = 0;
};

/// Transfers between two ranks, by the peer's place in the list of ranks it was made for.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  /// The memory is the caller's until the transfer was waited for.
  virtual std::unique_ptr<Transfer> send(int to, std::span<std::byte> data, int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, std::span<std::byte> data, int tag) = 0;
  virtual void abort() = 0;
};

/// Where ranks leave notes for each other before they are connected.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits until somebody has set it. Throws PeerError after the rendezvous' timeout.
  [[nodiscard]] virtual std::string get(const std::string& key) = 0;
};

/// A group as its channels see it.
struct Members {
  std::string name;  // of the group, the same on all members
  std::vector<int> ranks;
  int self = 0;
  double timeout_s = 300;

  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
};

/// To be called by every member that may fail for a reason they all see: the store lives on rank 0,
/// which stays until the others know too (or the rendezvous' timeout has passed).
void await_all_know(Store& store, const Members& members, const std::string& reason);

/// Every member says yes or no under this name; true on all if all said yes, and if not, all know
/// when rank 0 does.
[[nodiscard]] bool all_agree(Store& store, const Members& members, const std::string& question,
                             bool yes);

}  // namespace weft
