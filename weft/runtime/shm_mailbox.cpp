// Transfers by one copy. For each ordered pair of ranks there is a queue of notes in shared memory:
//
//   sender      writes a note {tag, address, bytes} and rings the receiver's bell
//   receiver    finds the first note with its tag, reads the sender's memory with process_vm_readv,
//               marks the note as taken and rings the sender's bell
//   sender      sees that, gives the memory back and uses the note again
//
// The receiver's part is done by whoever comes first: the thread that waits for the transfer, or a
// helper thread that sleeps until the bell rings. Because of the helper a transfer goes on as soon
// as both ends have begun it, whatever the two ranks wait for.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "weft/base/error.h"
#include "weft/runtime/shm_channel.h"
#include "weft/runtime/shm_segment.h"

namespace weft {
namespace {

constexpr std::uint64_t kNotes = 128;  // of a pair; further sends wait in the sender
constexpr std::uint64_t kProbe = 0x7765667420736d62;

enum class NoteState : std::uint32_t { free, ready, taken };

struct Note {
  std::atomic<NoteState> state;
  std::int32_t tag;
  std::uint64_t address;
  std::uint64_t bytes;
};

struct alignas(64) Queue {
  std::atomic<std::uint64_t> written;  // notes so far
  Note notes[kNotes];
};

struct alignas(64) Resident {
  Bell bell;
  std::atomic<std::uint32_t> left;
  std::uint64_t probe_address;
};

struct Outgoing {
  int to = 0;
  std::span<std::byte> data = {};
  int tag = 0;
  std::int64_t number = -1;  // of its note; -1: has none yet
  std::atomic<bool> done = false;
};

struct Incoming {
  int from = 0;
  std::span<std::byte> data = {};
  int tag = 0;
  std::string error = {};
  std::atomic<bool> done = false;
};

/// Both directions between this rank and one peer.
struct Peer {
  std::deque<std::shared_ptr<Outgoing>> outgoing;  // in order; those with a note first
  std::uint64_t written = 0;
  std::deque<std::shared_ptr<Incoming>> incoming;  // in order
  std::deque<std::uint64_t> arrived;               // notes for which nobody has asked yet
  std::uint64_t seen = 0;
};

struct Match {
  std::shared_ptr<Incoming> incoming;
  Note* note = nullptr;
};

// Reads a peer's memory; what went wrong, or empty.
std::string read_memory(int pid, std::uint64_t address, std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const iovec local = {.iov_base = to.data() + done, .iov_len = to.size() - done};
    const iovec remote = {.iov_base = reinterpret_cast<void*>(address + done),
                          .iov_len = to.size() - done};
    const ssize_t n = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (n <= 0) {
      return fmt::format("reading its memory failed: {}", std::strerror(errno));
    }
    done += static_cast<std::size_t>(n);
  }
  return "";
}

class ShmMailbox final : public Mailbox {
 public:
  ShmMailbox(const Members& members, ShmSegment segment, const std::vector<int>& pids)
      : members_(members),
        n_(members.count()),
        pids_(pids),
        segment_(std::move(segment)),
        residents_(reinterpret_cast<Resident*>(segment_.data())),
        queues_(reinterpret_cast<Queue*>(segment_.data() + n_ * sizeof(Resident))),
        peers_(n_),
        watch_(members, pids, left_words()) {}
  ~ShmMailbox() override {
    stop_ = true;
    leave();
  }
  ShmMailbox(const ShmMailbox&) = delete;
  ShmMailbox& operator=(const ShmMailbox&) = delete;
  ShmMailbox(ShmMailbox&&) = delete;
  ShmMailbox& operator=(ShmMailbox&&) = delete;

  static std::size_t bytes_for(int n) { return n * sizeof(Resident) + n * n * sizeof(Queue); }

  std::unique_ptr<Transfer> send(int to, std::span<std::byte> data, int tag) override;
  std::unique_ptr<Transfer> receive(int from, std::span<std::byte> data, int tag) override;
  void abort() override {
    watch_.abort();
    leave();
  }

  /// Whether this rank may read the memory of all others. All call it at the same time.
  bool probe(Store& store);
  void begin_helping() {
    helper_ = std::jthread([this] { help(); });
  }
  void wait_for(const Outgoing& outgoing);
  void wait_for(Incoming& incoming);
  void forget(const std::shared_ptr<Incoming>& incoming);

 private:
  [[nodiscard]] Bell& bell(int member) const { return residents_[member].bell; }
  [[nodiscard]] Queue& queue(int from, int to) const { return queues_[from * n_ + to]; }
  std::vector<std::atomic<std::uint32_t>*> left_words() {
    std::vector<std::atomic<std::uint32_t>*> words;
    for (int m = 0; m < n_; ++m) {
      words.push_back(&residents_[m].left);
    }
    return words;
  }
  void leave() {
    residents_[members_.self].left.store(1);
    for (int m = 0; m < n_; ++m) {
      bell(m).ring();
    }
  }
  void help();
  /// Writes the notes that fit and notices what was taken. Call with the mutex.
  void write_notes(int to);
  std::optional<Match> find_match();
  /// Takes what has arrived. Whether there was anything.
  bool take_one();

  Members members_;
  int n_;
  std::vector<int> pids_;
  ShmSegment segment_;
  Resident* residents_;
  Queue* queues_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  Watch watch_;
  std::uint64_t probe_value_ = kProbe;
  std::atomic<bool> stop_ = false;
  std::jthread helper_;  // last: ends first
};

class ShmSend final : public Transfer {
 public:
  ShmSend(ShmMailbox& mailbox, std::shared_ptr<Outgoing> outgoing)
      : mailbox_(mailbox), outgoing_(std::move(outgoing)) {}
  void wait() override { mailbox_.wait_for(*outgoing_); }

 private:
  ShmMailbox& mailbox_;
  std::shared_ptr<Outgoing> outgoing_;
};

class ShmReceive final : public Transfer {
 public:
  ShmReceive(ShmMailbox& mailbox, std::shared_ptr<Incoming> incoming)
      : mailbox_(mailbox), incoming_(std::move(incoming)) {}
  ~ShmReceive() override { mailbox_.forget(incoming_); }
  ShmReceive(const ShmReceive&) = delete;
  ShmReceive& operator=(const ShmReceive&) = delete;
  ShmReceive(ShmReceive&&) = delete;
  ShmReceive& operator=(ShmReceive&&) = delete;
  void wait() override { mailbox_.wait_for(*incoming_); }

 private:
  ShmMailbox& mailbox_;
  std::shared_ptr<Incoming> incoming_;
};

void ShmMailbox::write_notes(int to) {
  Peer& peer = peers_[to];
  Queue& out = queue(members_.self, to);
  bool news = false;
  for (const auto& o : peer.outgoing) {
    if (o->number >= 0) {
      Note& note = out.notes[o->number % kNotes];
      if (!o->done && note.state.load() == NoteState::taken) {
        note.state.store(NoteState::free);
        o->done = true;
      }
      continue;
    }
    Note& note = out.notes[peer.written % kNotes];
    if (note.state.load() != NoteState::free) {
      break;
    }
    note.tag = o->tag;
    note.address = reinterpret_cast<std::uint64_t>(o->data.data());
    note.bytes = o->data.size();
    note.state.store(NoteState::ready);
    o->number = static_cast<std::int64_t>(peer.written++);
    out.written.store(peer.written);
    news = true;
  }
  std::erase_if(peer.outgoing, [](const auto& o) { return o->done.load(); });
  if (news) {
    bell(to).ring();
  }
}

std::optional<Match> ShmMailbox::find_match() {
  const std::lock_guard lock(mutex_);
  for (int from = 0; from < n_; ++from) {
    Peer& peer = peers_[from];
    if (!peer.outgoing.empty()) {
      write_notes(from);
    }
    Queue& in = queue(from, members_.self);
    for (const std::uint64_t written = in.written.load(); peer.seen < written; ++peer.seen) {
      peer.arrived.push_back(peer.seen);
    }
    for (auto number = peer.arrived.begin(); number != peer.arrived.end(); ++number) {
      Note& note = in.notes[*number % kNotes];
      for (auto wanted = peer.incoming.begin(); wanted != peer.incoming.end(); ++wanted) {
        if ((*wanted)->tag == note.tag) {
          Match match{.incoming = *wanted, .note = &note};
          peer.incoming.erase(wanted);
          peer.arrived.erase(number);
          return match;
        }
      }
    }
  }
  return std::nullopt;
}

bool ShmMailbox::take_one() {
  const std::optional<Match> match = find_match();
  if (!match) {
    return false;
  }
  Incoming& incoming = *match->incoming;
  const int from = incoming.from;
  incoming.error = match->note->bytes == incoming.data.size()
                       ? read_memory(pids_[from], match->note->address, incoming.data)
                       : fmt::format("it sends {} bytes where {} are wanted", match->note->bytes,
                                     incoming.data.size());
  match->note->state.store(NoteState::taken);
  incoming.done = true;
  bell(from).ring();
  bell(members_.self).ring();
  return true;
}

void ShmMailbox::help() {
  Bell& own = bell(members_.self);
  while (!stop_) {
    const std::uint32_t seen = own.rings.load();
    while (take_one()) {
    }
    if (!stop_) {
      own.sleep(seen);
    }
  }
}

void ShmMailbox::wait_for(const Outgoing& outgoing) {
  const auto gone = [&] {
    if (!outgoing.done) {
      const std::lock_guard lock(mutex_);
      write_notes(outgoing.to);
    }
    return outgoing.done.load();
  };
  wait_until(bell(members_.self), watch_, outgoing.to, gone);
}

void ShmMailbox::wait_for(Incoming& incoming) {
  wait_until(bell(members_.self), watch_, incoming.from, [&] {
    while (!incoming.done && take_one()) {
    }
    return incoming.done.load();
  });
  if (!incoming.error.empty()) {
    throw PeerError(incoming.error);
  }
}

// Its memory is about to be used for something else: nobody may write there any more.
void ShmMailbox::forget(const std::shared_ptr<Incoming>& incoming) {
  if (incoming->done) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::erase(peers_[incoming->from].incoming, incoming) > 0) {
      return;
    }
  }
  while (!incoming->done) {  // the helper is copying
    std::this_thread::yield();
  }
}

std::unique_ptr<Transfer> ShmMailbox::send(int to, std::span<std::byte> data, int tag) {
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->to = to;
  outgoing->data = data;
  outgoing->tag = tag;
  {
    const std::lock_guard lock(mutex_);
    peers_[to].outgoing.push_back(outgoing);
    write_notes(to);
  }
  return std::make_unique<ShmSend>(*this, std::move(outgoing));
}

std::unique_ptr<Transfer> ShmMailbox::receive(int from, std::span<std::byte> data, int tag) {
  auto incoming = std::make_shared<Incoming>();
  incoming->from = from;
  incoming->data = data;
  incoming->tag = tag;
  {
    const std::lock_guard lock(mutex_);
    peers_[from].incoming.push_back(incoming);
  }
  bell(members_.self).ring();  // the helper looks whether it has arrived already
  return std::make_unique<ShmReceive>(*this, std::move(incoming));
}

bool ShmMailbox::probe(Store& store) {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where the system asks for it
  residents_[members_.self].probe_address = reinterpret_cast<std::uint64_t>(&probe_value_);
  bool good = all_agree(store, members_, "probe", true);
  for (int m = 0; m < n_ && good; ++m) {
    std::uint64_t value = 0;
    good = read_memory(pids_[m], residents_[m].probe_address,
                       std::as_writable_bytes(std::span(&value, 1)))
               .empty() &&
           value == kProbe;
  }
  return all_agree(store, members_, "readable", good);
}

}  // namespace

std::unique_ptr<Mailbox> make_shm_mailbox(Store& store, const Members& members) {
  const std::vector<int> pids = exchange_pids(store, members);
  auto segment = ShmSegment::share(store, members, ShmMailbox::bytes_for(members.count()));
  if (!segment) {
    return nullptr;
  }
  auto mailbox = std::make_unique<ShmMailbox>(members, std::move(*segment), pids);
  if (!mailbox->probe(store)) {
    return nullptr;
  }
  mailbox->begin_helping();
  return mailbox;
}

}  // namespace weft
