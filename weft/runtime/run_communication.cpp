// Instructions that involve other devices. Buffers are allocated when an instruction is issued and
// given back when it is waited for, both on the compute thread.
#include "weft/kernels/torch_headers.h"

#include <algorithm>
#include <map>

#include "weft/base/error.h"
#include "weft/runtime/executor_impl.h"

namespace weft {
namespace {

struct PendingCollective final : Pending {
  CommunicationLane& lane;
  std::shared_ptr<CommunicationLane::Task> task;

  PendingCollective(CommunicationLane& where, std::shared_ptr<CommunicationLane::Task> what_runs)
      : lane(where), task(std::move(what_runs)) {}
  void finish() override {
    if (task) {
      const auto running = std::exchange(task, nullptr);
      lane.wait(*running);
      begin = running->begin;
      end = running->end;
    }
  }
};

/// A collective of an emulated device: runs, and is over when it would be on the emulated links.
struct PacedCollective final : Collective {
  std::unique_ptr<Collective> collective;
  Board& board;
  std::shared_ptr<Meeting> meeting;
  double& lane_clock_s;

  PacedCollective(std::unique_ptr<Collective> real, Board& where, std::shared_ptr<Meeting> what,
                  double& clock_s)
      : collective(std::move(real)),
        board(where),
        meeting(std::move(what)),
        lane_clock_s(clock_s) {}
  void run(Communicator& communicator) override {
    meeting->arrival_s = std::max(meeting->arrival_s, lane_clock_s);
    board.arrive(*meeting);
    collective->run(communicator);
    board.leave(*meeting);
    lane_clock_s = meeting->end_s;
  }
};

struct PendingTransfer final : Pending {
  struct Unpack {
    at::Tensor to;
    at::Tensor buffer;
  };
  std::vector<std::unique_ptr<Transfer>> transfers;
  std::vector<Unpack> unpack;
  Board* board = nullptr;  // of an emulated device

  void finish() override {
    for (const auto& transfer : transfers) {
      transfer->wait();
    }
    transfers.clear();
    for (const Unpack& u : unpack) {
      u.to.copy_(u.buffer);
    }
    unpack.clear();
    for (const auto& meeting : meetings) {
      board->leave(*meeting);
    }
    if (end < begin) {
      end = CommunicationLane::Clock::now();
    }
  }
};

}  // namespace

int Executor::Impl::rank_of(DeviceId device) const {
  const auto it = std::ranges::find(devices, device);
  WEFT_CHECK(it != devices.end());
  return static_cast<int>(it - devices.begin());
}

int Executor::Impl::tag_of(const IssuedInstruction& issued) const {
  const auto count = static_cast<int>(program.micro_batches.size());
  return issued.instruction->edge * count + std::max(issued.micro_batch, 0);
}

void Executor::Impl::start_collective(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  std::vector<at::Tensor> reads;
  std::vector<at::Tensor> writes;
  for (std::size_t o = 0; o < i.reads.size(); ++o) {
    reads.push_back(read(i.reads[o], issued.micro_batch));
    writes.push_back(destination(i.writes[o], issued.micro_batch));
  }
  const CollectiveSite site{.stage = *stage,
                            .instruction = i,
                            .at = at,
                            .samples = samples_in(program, issued.micro_batch),
                            .group = i.axis == kAllDevices ? 0 : axis_groups[i.axis]};
  auto collective = make_collective(site, std::move(reads), std::move(writes));
  std::shared_ptr<Meeting> meeting;
  if (emulated != nullptr) {
    meeting = std::make_shared<Meeting>(emulated->collective(place_of(issued)));
    collective = std::make_unique<PacedCollective>(std::move(collective), emulated->board(),
                                                   meeting, lane_clock_s);
  }
  auto pending = std::make_shared<PendingCollective>(lane, lane.start(std::move(collective)));
  if (meeting) {
    pending->meetings.push_back(std::move(meeting));
  }
  pending->what = describe(issued);
  pending->event = options.timeline ? add_event(issued) : -1;
  for (std::size_t o = 0; o < i.reads.size(); ++o) {
    state(i.reads[o], issued.micro_batch).readers.push_back(pending);
    state(i.writes[o], issued.micro_batch).writer = pending;
  }
}

// An emulated device meets each of the peers of a send or recv for all their pieces at once.
void Executor::Impl::meet(Pending& pending, const IssuedInstruction& issued,
                          const std::vector<LocalPiece>& moved, std::int64_t element_bytes) {
  const DeviceId self = devices[communicator.rank()];
  const bool sends = issued.instruction->opcode == Opcode::send;
  std::map<DeviceId, std::int64_t> bytes;
  for (const LocalPiece& piece : moved) {
    std::int64_t size = element_bytes;
    for (const Range& range : piece.box) {
      size *= range.size();
    }
    bytes[piece.peer] += size;
  }
  for (const auto& [peer, size] : bytes) {
    const auto meeting =
        std::make_shared<Meeting>(emulated->transfer(issued.instruction->edge, issued.micro_batch,
                                                     {.from = sends ? self : peer,
                                                      .to = sends ? peer : self,
                                                      .region = {{.begin = 0, .end = size}}}));
    emulated->board().arrive(*meeting);
    pending.meetings.push_back(meeting);
  }
}

void Executor::Impl::start_send(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  const std::int64_t samples = samples_in(program, issued.micro_batch);
  const auto [it, fresh] = pieces.try_emplace({&i, samples});
  if (fresh) {
    it->second = pieces_to_send(program, i.edge, at, samples);
  }
  const at::Tensor& tensor = read(i.reads[0], issued.micro_batch);
  auto pending = std::make_shared<PendingTransfer>();
  pending->what = describe(issued);
  pending->begin = CommunicationLane::Clock::now();
  pending->event = options.timeline ? add_event(issued) : -1;
  if (emulated != nullptr) {
    pending->board = &emulated->board();
    meet(*pending, issued, it->second, tensor.element_size());
  }
  for (const LocalPiece& piece : it->second) {
    pending->transfers.push_back(communicator.send(
        rank_of(piece.peer), take_box(tensor, piece.box).contiguous(), tag_of(issued)));
  }
  state(i.reads[0], issued.micro_batch).readers.push_back(std::move(pending));
}

void Executor::Impl::start_receive(const IssuedInstruction& issued) {
  const Instruction& i = *issued.instruction;
  const std::int64_t samples = samples_in(program, issued.micro_batch);
  const auto [it, fresh] = pieces.try_emplace({&i, samples});
  if (fresh) {
    it->second = pieces_to_receive(program, i.edge, at, samples);
  }
  const at::Tensor tensor = destination(i.writes[0], issued.micro_batch);
  auto pending = std::make_shared<PendingTransfer>();
  pending->what = describe(issued);
  pending->begin = CommunicationLane::Clock::now();
  pending->event = options.timeline ? add_event(issued) : -1;
  if (emulated != nullptr) {
    pending->board = &emulated->board();
    meet(*pending, issued, it->second, tensor.element_size());
  }
  for (const LocalPiece& piece : it->second) {
    at::Tensor target = take_box(tensor, piece.box);
    if (!target.is_contiguous()) {
      const at::Tensor buffer = at::empty(target.sizes(), target.options());
      pending->unpack.push_back({.to = target, .buffer = buffer});
      target = buffer;
    }
    pending->transfers.push_back(communicator.receive(rank_of(piece.peer), target, tag_of(issued)));
  }
  state(i.writes[0], issued.micro_batch).writer = std::move(pending);
}

void Executor::Impl::finish(const std::shared_ptr<Pending>& pending) {
  try {
    pending->finish();
  } catch (const PeerError& error) {
    throw PeerError(fmt::format("{} ({})", error.what(), pending->what));
  }
  for (const auto& meeting : pending->meetings) {
    emulated->waited(*meeting);
  }
  if (pending->event >= 0) {
    close_event(std::exchange(pending->event, -1), pending->begin, pending->end);
  }
}

void Executor::Impl::run_wait(const IssuedInstruction& issued) {
  for (const SlotId slot : issued.instruction->reads) {
    const auto writer = std::exchange(state(slot, issued.micro_batch).writer, nullptr);
    if (writer) {
      finish(writer);
    }
  }
}

void Executor::Impl::run_free(const IssuedInstruction& issued) {
  for (const SlotId slot : issued.instruction->reads) {
    SlotState& s = state(slot, issued.micro_batch);
    for (const auto& reader : s.readers) {
      finish(reader);
    }
    if (s.writer) {
      finish(s.writer);
    }
    s = {};
  }
}

}  // namespace weft
