// Every instruction gets a key: twice its place in the plain order of the schedule. Moved ones take
// an odd key just behind or before another place; the order of keys is the order of issue.

#include "weft/program/expand.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "weft/base/error.h"

namespace weft {
namespace {

struct Entry {
  int segment = 0;
  std::int64_t first = 0;  // places in the plain order
  std::int64_t last = 0;
};

std::vector<Entry> plain_order(const StageProgram& stage) {
  std::vector<Entry> entries;
  std::int64_t place = 0;
  for (const ScheduleEntry& entry : stage.schedule) {
    const int segment = find_segment(stage, entry.phase, entry.chunk);
    WEFT_CHECK(segment >= 0);
    const std::int64_t end = place + std::ssize(stage.segments[segment].instructions);
    entries.push_back({.segment = segment, .first = place, .last = end - 1});
    place = end;
  }
  return entries;
}

struct Moved {
  std::int64_t key = 0;
  std::int64_t place = 0;
};

bool is_moved_gather(const Segment& segment, const Instruction& i) {
  return i.moved && i.opcode == Opcode::collective && segment.phase == Phase::gather;
}

// Moved gathers, in the order in which they are needed: each begins when the one before the last is
// needed. What another gather reads is needed when that one is. Only the first time that a segment
// runs counts.
void pace_gathers(const StageProgram& stage, const std::vector<Entry>& entries,
                  std::vector<Moved>& moved) {
  struct Gather {
    const Instruction* instruction = nullptr;
    std::int64_t place = 0;
    std::int64_t needed = std::numeric_limits<std::int64_t>::max();  // key of what reads it first
  };
  std::vector<Gather> gathers;
  std::vector<int> gather_of(stage.slots.size(), -1);  // by slot: into gathers
  const auto need = [&](const Instruction& i, std::int64_t key) {
    for (const SlotId slot : i.reads) {
      if (gather_of[slot] >= 0) {
        std::int64_t& needed = gathers[gather_of[slot]].needed;
        needed = std::min(needed, key);
      }
    }
  };
  std::vector<bool> seen(stage.segments.size(), false);
  for (const Entry& entry : entries) {
    if (seen[entry.segment]) {
      continue;
    }
    seen[entry.segment] = true;
    std::int64_t place = entry.first;
    for (const Instruction& i : stage.segments[entry.segment].instructions) {
      if (is_moved_gather(stage.segments[entry.segment], i)) {
        for (const SlotId slot : i.writes) {
          gather_of[slot] = static_cast<int>(gathers.size());
        }
        gathers.push_back({.instruction = &i, .place = place});
      } else {
        need(i, 2 * place);
      }
      ++place;
    }
  }
  for (std::size_t g = gathers.size(); g-- > 0;) {
    need(*gathers[g].instruction, gathers[g].needed);
  }
  std::ranges::stable_sort(gathers, {}, &Gather::needed);
  std::vector<std::int64_t> needed;  // each once
  for (const Gather& gather : gathers) {
    if (needed.empty() || needed.back() != gather.needed) {
      needed.push_back(gather.needed);
    }
    if (needed.size() > 2) {
      moved.push_back({.key = needed[needed.size() - 3] + 1, .place = gather.place});
    }
  }
}

// By segment: the instructions that may be moved or that write what lives for the step.
std::vector<std::vector<int>> instructions_of_note(const StageProgram& stage) {
  std::vector<std::vector<int>> result;
  for (const Segment& segment : stage.segments) {
    auto& list = result.emplace_back();
    for (std::size_t i = 0; i < segment.instructions.size(); ++i) {
      const Instruction& instruction = segment.instructions[i];
      if (instruction.moved || std::ranges::any_of(instruction.writes, [&](SlotId slot) {
            return stage.slots[storage_of(stage, slot)].lifetime == Lifetime::step;
          })) {
        list.push_back(static_cast<int>(i));
      }
    }
  }
  return result;
}

// All that is issued elsewhere than in the plain order, in the order of keys.
std::vector<Moved> moved_instructions(const StageProgram& stage,
                                      const std::vector<Entry>& entries) {
  std::vector<Moved> moved;
  pace_gathers(stage, entries, moved);
  const std::vector<std::vector<int>> of_note = instructions_of_note(stage);
  std::vector<std::int64_t> last_write(stage.slots.size(), 0);  // by storage: key
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const Segment& segment = stage.segments[entries[e].segment];
    for (const int place : of_note[entries[e].segment]) {
      const Instruction& i = segment.instructions[place];
      const std::int64_t usual = 2 * (entries[e].first + place);
      std::int64_t key = usual;
      if (i.moved && i.opcode == Opcode::collective && segment.phase != Phase::gather) {
        key = 0;
        for (const SlotId slot : i.reads) {
          key = std::max(key, last_write[storage_of(stage, slot)] | 1);
        }
      } else if (i.moved && i.opcode == Opcode::recv && e > 0) {
        key = 2 * entries[e - 1].first - 1;
      } else if (i.moved && i.opcode == Opcode::free && e + 1 < entries.size()) {
        key = 2 * entries[std::min(e + stage.send_slack, entries.size() - 1)].last + 1;
      }
      for (const SlotId slot : i.writes) {
        last_write[storage_of(stage, slot)] = key;
      }
      if (key != usual) {
        moved.push_back({.key = key, .place = entries[e].first + place});
      }
    }
  }
  std::ranges::stable_sort(moved, [](const Moved& a, const Moved& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  });
  return moved;
}

}  // namespace

InstructionIndex::InstructionIndex(const StageProgram& stage) {
  for (const Segment& segment : stage.segments) {
    parts_.push_back({segment.instructions.data(), count_});
    count_ += static_cast<int>(segment.instructions.size());
  }
}

std::vector<IssuedRun> issue_order(const StageProgram& stage) {
  const std::vector<Entry> entries = plain_order(stage);
  const std::vector<Moved> moved = moved_instructions(stage, entries);
  std::vector<std::int64_t> left;  // places that are issued elsewhere
  for (const Moved& m : moved) {
    left.push_back(m.place);
  }
  std::ranges::sort(left);
  std::vector<IssuedRun> runs;
  const auto issue = [&](std::size_t e, std::int64_t from, std::int64_t to) {
    runs.push_back({.segment = entries[e].segment,
                    .first = static_cast<int>(from - entries[e].first),
                    .end = static_cast<int>(to - entries[e].first),
                    .micro_batch = stage.schedule[e].micro_batch});
  };
  auto next = moved.begin();
  const auto issue_moved = [&](std::int64_t before) {
    for (; next != moved.end() && next->key < before; ++next) {
      const auto behind = std::ranges::upper_bound(entries, next->place, {}, &Entry::first);
      issue(static_cast<std::size_t>(behind - entries.begin()) - 1, next->place, next->place + 1);
    }
  };
  auto gone = left.begin();
  for (std::size_t e = 0; e < entries.size(); ++e) {
    for (std::int64_t place = entries[e].first; place <= entries[e].last;) {
      issue_moved(2 * place);
      if (gone != left.end() && *gone == place) {
        ++gone;
        ++place;
        continue;
      }
      std::int64_t end = entries[e].last + 1;
      end = gone != left.end() ? std::min(end, *gone) : end;
      end = next != moved.end() ? std::min(end, next->key / 2 + 1) : end;
      issue(e, place, end);
      place = end;
    }
  }
  issue_moved(std::numeric_limits<std::int64_t>::max());
  return runs;
}

std::vector<IssuedInstruction> expand(const StageProgram& stage) {
  std::vector<IssuedInstruction> order;
  for (const IssuedRun& run : issue_order(stage)) {
    const Segment& segment = stage.segments[run.segment];
    for (int i = run.first; i < run.end; ++i) {
      order.push_back({.instruction = &segment.instructions[i],
                       .phase = segment.phase,
                       .micro_batch = run.micro_batch,
                       .segment = run.segment});
    }
  }
  return order;
}

}  // namespace weft
