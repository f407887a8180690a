// Walks through what a device issues. What a run of instructions does for a micro-batch it does for
// all of them, but for other exchanges: they are as far apart as micro-batches are. So its moves
// are noted the second time that it comes (the first sums of a step are special), with what it
// found under way and left so; as long as it finds the same, they are repeated.

#include "weft/simulate/device_moves.h"

#include <algorithm>
#include <tuple>

namespace weft {
namespace {

// `apart`: of a move or a writer, how far its exchange is from that of the next micro-batch.
struct KnownRun {
  struct Writer {
    int moved = -1;
    int before = -1;
    int after = -1;
    int before_apart = 0;
    int after_apart = 0;
  };
  int times = 0;
  int micro_batch = 0;  // that it was noted for
  int place = 0;
  std::vector<Move> moves = {};
  std::vector<int> apart = {};  // by move
  std::vector<Writer> writers = {};
};

class DeviceMoves {
 public:
  DeviceMoves(const GameParts& parts, int stage, int member)
      : p_(parts),
        info_(parts.stages[stage]),
        stage_(stage),
        member_(member),
        device_(info_.devices[member]),
        writing_(info_.moved_all + static_cast<std::size_t>(info_.moved_each) * parts.micro_batches,
                 -1),
        summed_(info_.moved.size(), 0) {}

  std::vector<Move> run(const std::vector<IssuedRun>& order) {
    for (const IssuedRun& run : order) {
      KnownRun& known = known_[{run.segment, run.first, run.end,
                                p_.variants.of_micro_batch[run.micro_batch + 1]}];
      const bool repeats = run.micro_batch >= 0 && p_.options.repeat && !p_.options.keep_places;
      if (repeats && known.times >= 2 && repeat_run(known, run)) {
        continue;
      }
      if (repeats && ++known.times == 2) {
        note_run(known, run);
      } else {
        compile_run(run);
      }
    }
    return std::move(moves_);
  }

 private:
  void compile_run(const IssuedRun& run);
  void note_run(KnownRun& known, const IssuedRun& run);
  bool repeat_run(const KnownRun& known, const IssuedRun& run);
  [[nodiscard]] KnownRun known_run(const IssuedRun& run, int place) const;
  [[nodiscard]] int apart(int exchange, int micro_batch) const;
  void begin_collective(const IssuedInstruction& at, int i);
  void begin_transfer(const IssuedInstruction& at);
  void wait_for(const IssuedInstruction& at);
  void free_sent(const IssuedInstruction& at);
  void compute(const IssuedInstruction& at, int i);
  void issue(Move next);
  void add(const Move& next);
  void issue_communication();

  [[nodiscard]] int transfer_id(int edge, int receiver, int micro_batch) const {
    const TransferInfo& info = p_.transfers[edge];
    return info.first + std::max(micro_batch, 0) * static_cast<int>(info.senders.size()) + receiver;
  }
  // What lives for a micro-batch has a place for each of these behind the places of all: what lives
  // for the step may be waited for by a micro-batch.
  [[nodiscard]] std::size_t writer_place(int moved, int micro_batch) const {
    const bool each = moved < info_.moved_each && micro_batch >= 0;
    return moved +
           (each ? info_.moved_all + static_cast<std::size_t>(info_.moved_each) * micro_batch : 0);
  }
  int& writer(int moved, int micro_batch) {
    int& exchange = writing_[writer_place(moved, micro_batch)];
    if (noting_ != nullptr) {
      noting_->emplace_back(moved, exchange);
    }
    return exchange;
  }

  const GameParts& p_;
  const StageInfo& info_;
  int stage_;
  int member_;
  int device_;
  std::vector<Move> moves_;
  std::vector<int> writing_;  // by place: exchange that is under way, or -1
  std::vector<char> summed_;  // by slot: something was accumulated there in this step
  int over_all_ = 0;
  int place_ = 0;
  std::map<std::tuple<int, int, int, int>, KnownRun> known_;  // by segment, first, end and variant
  std::vector<std::pair<int, int>>* noting_ = nullptr;        // moved slots, exchanges as found
};

void DeviceMoves::begin_collective(const IssuedInstruction& at, int i) {
  const Instruction& instruction = *at.instruction;
  int exchange = 0;
  if (instruction.axis == kAllDevices) {
    exchange = p_.over_all[over_all_++];
  } else {
    exchange = info_.first[i] + (at.micro_batch + 1) * info_.groups[instruction.axis] +
               info_.group[instruction.axis][member_];
  }
  issue_communication();
  moves_.push_back(
      {.kind = Move::Kind::join, .exchange = exchange, .lane = device_, .place = place_});
  for (const SlotId slot : instruction.writes) {
    writer(info_.moved[slot], at.micro_batch) = exchange;
  }
}

void DeviceMoves::begin_transfer(const IssuedInstruction& at) {
  const Instruction& instruction = *at.instruction;
  const TransferInfo& info = p_.transfers[instruction.edge];
  if (instruction.opcode == Opcode::recv) {
    const int exchange = transfer_id(instruction.edge, member_, at.micro_batch);
    moves_.push_back(
        {.kind = Move::Kind::arrive, .exchange = exchange, .lane = -1, .place = place_});
    for (const SlotId slot : instruction.writes) {
      writer(info_.moved[slot], at.micro_batch) = exchange;
    }
    return;
  }
  issue_communication();
  for (int r = 0; r < static_cast<int>(info.senders.size()); ++r) {
    const auto lane = info.lanes.find({device_, r});
    if (lane != info.lanes.end()) {
      moves_.push_back({.kind = Move::Kind::join,
                        .exchange = transfer_id(instruction.edge, r, at.micro_batch),
                        .lane = lane->second,
                        .place = place_});
    }
  }
}

void DeviceMoves::wait_for(const IssuedInstruction& at) {
  for (const SlotId slot : at.instruction->reads) {
    if (info_.moved[slot] < 0) {
      continue;
    }
    int& exchange = writer(info_.moved[slot], at.micro_batch);
    if (exchange >= 0) {
      const bool transfer = exchange >= p_.first_transfer && exchange < p_.last_transfer;
      moves_.push_back({.kind = Move::Kind::wait,
                        .exchange = exchange,
                        .lane = -1,
                        .place = place_,
                        .host_s = transfer ? info_.types[member_]->receive_s : 0});
      exchange = -1;
    }
  }
}

void DeviceMoves::free_sent(const IssuedInstruction& at) {
  for (const SlotId slot : at.instruction->reads) {
    for (const int edge : info_.sent[slot]) {
      const TransferInfo& info = p_.transfers[edge];
      const int m = p_.in.program.edges[edge].each_micro_batch ? at.micro_batch : 0;
      for (int r = 0; r < static_cast<int>(info.senders.size()); ++r) {
        if (info.lanes.contains({device_, r})) {
          moves_.push_back({.kind = Move::Kind::wait,
                            .exchange = transfer_id(edge, r, m),
                            .lane = -1,
                            .place = place_});
        }
      }
    }
  }
}

void DeviceMoves::compute(const IssuedInstruction& at, int i) {
  const int variant = p_.variants.of_micro_batch[at.micro_batch + 1];
  const int position = p_.out.devices[device_].position;
  const Duration& duration =
      info_.durations.compute[info_.classes.of_position[position]][variant][i];
  double seconds = duration.seconds;
  if (at.instruction->opcode == Opcode::accumulate) {
    char& summed = summed_[at.instruction->writes[0]];
    seconds = summed != 0 ? duration.seconds : duration.first_seconds;
    summed = 1;
  }
  const bool issued = seconds > 0 || duration.issue_more_s != 0;
  if (issued || p_.options.keep_places) {
    const DeviceType& type = *info_.types[member_];
    const double usual_s =
        at.phase == Phase::update ? type.update_issue_s.value_or(type.issue_s) : type.issue_s;
    issue({.place = place_,
           .seconds = seconds,
           .issue_s = issued ? usual_s + duration.issue_more_s : 0});
  }
}

// Adds a run, joined with one before it: the host issues both, the device runs one behind the
// other.
void DeviceMoves::issue(Move next) {
  next.behind_issue_s = next.issue_s + next.seconds;
  add(next);
}

void DeviceMoves::add(const Move& next) {
  if (p_.options.keep_places || next.kind != Move::Kind::run || moves_.empty() ||
      moves_.back().kind != Move::Kind::run) {
    moves_.push_back(next);
    return;
  }
  Move& last = moves_.back();
  last.behind_issue_s =
      std::max(last.behind_issue_s + next.seconds, last.issue_s + next.behind_issue_s);
  last.seconds += next.seconds;
  last.issue_s += next.issue_s;
}

// A collective or a send begins when the host has come to it, as a kernel does.
void DeviceMoves::issue_communication() {
  if (const double issue_s = info_.types[member_]->issue_s; issue_s > 0) {
    issue({.issue_s = issue_s});
  }
}

// How far the exchange is from that of the next micro-batch: nothing, if it is not this one's.
int DeviceMoves::apart(int exchange, int micro_batch) const {
  if (exchange < 0 || exchange >= static_cast<int>(p_.of_micro_batch.size()) ||
      p_.of_micro_batch[exchange].micro_batch != micro_batch) {
    return 0;
  }
  return p_.of_micro_batch[exchange].apart;
}

// The run has just been walked through, with nothing in `moves_` before it.
KnownRun DeviceMoves::known_run(const IssuedRun& run, int place) const {
  KnownRun known{.times = 2, .micro_batch = run.micro_batch, .place = place, .moves = moves_};
  for (const Move& move : moves_) {
    known.apart.push_back(apart(move.exchange, run.micro_batch));
  }
  std::vector<char> seen(info_.moved_all, 0);
  for (const auto& [moved, before] : *noting_) {
    if (std::exchange(seen[moved], 1) != 0) {
      continue;
    }
    const int after = writing_[writer_place(moved, run.micro_batch)];
    known.writers.push_back({.moved = moved,
                             .before = before,
                             .after = after,
                             .before_apart = apart(before, run.micro_batch),
                             .after_apart = apart(after, run.micro_batch)});
  }
  return known;
}

// False: what the run would wait for is not what it waited for when it was noted.
bool DeviceMoves::repeat_run(const KnownRun& known, const IssuedRun& run) {
  const int later = run.micro_batch - known.micro_batch;
  const bool same = std::ranges::all_of(known.writers, [&](const KnownRun::Writer& noted) {
    return writer(noted.moved, run.micro_batch) == noted.before + later * noted.before_apart;
  });
  if (!same) {
    return false;
  }
  for (const KnownRun::Writer& noted : known.writers) {
    writer(noted.moved, run.micro_batch) = noted.after + later * noted.after_apart;
  }
  for (std::size_t i = 0; i < known.moves.size(); ++i) {
    Move move = known.moves[i];
    move.place += move.place == kNoPlace ? 0 : place_ - known.place;
    move.exchange += later * known.apart[i];
    add(move);
  }
  place_ += run.end - run.first;
  return true;
}

void DeviceMoves::compile_run(const IssuedRun& run) {
  const Segment& segment = p_.in.program.stages[stage_].segments[run.segment];
  for (int number = run.first; number < run.end; ++number) {
    const IssuedInstruction at{.instruction = &segment.instructions[number],
                               .phase = segment.phase,
                               .micro_batch = run.micro_batch,
                               .segment = run.segment};
    const int i = info_.index(run.segment, number);
    switch (at.instruction->opcode) {
      case Opcode::collective:
        begin_collective(at, i);
        break;
      case Opcode::send:
      case Opcode::recv:
        begin_transfer(at);
        break;
      case Opcode::wait:
        wait_for(at);
        break;
      case Opcode::free:
        free_sent(at);
        break;
      default:
        compute(at, i);
    }
    ++place_;
  }
}

void DeviceMoves::note_run(KnownRun& known, const IssuedRun& run) {
  std::vector<Move> before = std::exchange(moves_, {});
  std::vector<std::pair<int, int>> found;
  noting_ = &found;
  const int place = place_;
  compile_run(run);
  known = known_run(run, place);
  noting_ = nullptr;
  for (const Move& move : std::exchange(moves_, std::move(before))) {
    add(move);
  }
}

}  // namespace

std::vector<Move> device_moves(const GameParts& parts, int stage, int member,
                               const std::vector<IssuedRun>& order) {
  return DeviceMoves(parts, stage, member).run(order);
}

}  // namespace weft
