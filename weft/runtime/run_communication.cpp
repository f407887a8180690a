// Instructions that involve other devices. Buffers are allocated when an instruction is issued and
// given back when it is waited for, both on the compute thread.
#include "weft/kernels/torch_headers.h"

#include <algorithm>

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

struct PendingTransfer final : Pending {
  struct Unpack {
    at::Tensor to;
    at::Tensor buffer;
  };
  std::vector<std::unique_ptr<Transfer>> transfers;
  std::vector<Unpack> unpack;

  void finish() override {
    for (const auto& transfer : transfers) {
      transfer->wait();
    }
    transfers.clear();
    for (const Unpack& u : unpack) {
      u.to.copy_(u.buffer);
    }
    unpack.clear();
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
  auto pending = std::make_shared<PendingCollective>(
      lane, lane.start(make_collective(site, std::move(reads), std::move(writes))));
  pending->what = describe(issued);
  pending->event = options.timeline ? add_event(issued) : -1;
  for (std::size_t o = 0; o < i.reads.size(); ++o) {
    state(i.reads[o], issued.micro_batch).readers.push_back(pending);
    state(i.writes[o], issued.micro_batch).writer = pending;
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
