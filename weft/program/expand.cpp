// Every instruction gets a key: twice its place in the plain order of the schedule. Moved ones take
// an odd key just behind or before another place; a stable sort by key is the order of issue.

#include "weft/program/expand.h"

#include <algorithm>
#include <limits>
#include <map>

#include "weft/base/error.h"

namespace weft {
namespace {

struct Keyed {
  std::int64_t key = 0;
  IssuedInstruction issued;
};

struct Entry {
  std::int64_t first = 0;  // places in the plain order
  std::int64_t last = 0;
};

std::vector<Keyed> plain_order(const StageProgram& stage, std::vector<Entry>& entries) {
  std::vector<Keyed> list;
  for (const ScheduleEntry& entry : stage.schedule) {
    const int segment = find_segment(stage, entry.phase, entry.chunk);
    WEFT_CHECK(segment >= 0);
    entries.push_back({.first = static_cast<std::int64_t>(list.size()), .last = 0});
    for (const Instruction& i : stage.segments[segment].instructions) {
      list.push_back({.key = 2 * static_cast<std::int64_t>(list.size()),
                      .issued = {.instruction = &i,
                                 .phase = entry.phase,
                                 .micro_batch = entry.micro_batch,
                                 .segment = segment}});
    }
    entries.back().last = static_cast<std::int64_t>(list.size()) - 1;
  }
  return list;
}

// Moved gathers, in the order in which they are needed: each begins when the one before the last is
// needed. What another gather reads is needed when that one is.
void pace_gathers(std::vector<Keyed>& list) {
  struct Gather {
    Keyed* keyed = nullptr;
    std::int64_t needed = std::numeric_limits<std::int64_t>::max();  // key of what reads it first
  };
  std::vector<Gather> gathers;
  std::map<SlotId, std::size_t> gather_of;  // slot → into gathers
  for (Keyed& keyed : list) {
    const Instruction& i = *keyed.issued.instruction;
    if (i.moved && i.opcode == Opcode::collective && keyed.issued.phase == Phase::gather) {
      for (const SlotId slot : i.writes) {
        gather_of[slot] = gathers.size();
      }
      gathers.push_back({.keyed = &keyed});
    } else if (!gathers.empty()) {
      for (const SlotId slot : i.reads) {
        if (const auto it = gather_of.find(slot); it != gather_of.end()) {
          std::int64_t& needed = gathers[it->second].needed;
          needed = std::min(needed, keyed.key);
        }
      }
    }
  }
  for (std::size_t g = gathers.size(); g-- > 0;) {
    for (const SlotId slot : gathers[g].keyed->issued.instruction->reads) {
      if (const auto it = gather_of.find(slot); it != gather_of.end()) {
        std::int64_t& needed = gathers[it->second].needed;
        needed = std::min(needed, gathers[g].needed);
      }
    }
  }
  std::ranges::stable_sort(gathers, {}, &Gather::needed);
  std::vector<std::int64_t> needed;  // each once
  for (const Gather& gather : gathers) {
    if (needed.empty() || needed.back() != gather.needed) {
      needed.push_back(gather.needed);
    }
    if (needed.size() > 2) {
      gather.keyed->key = needed[needed.size() - 3] + 1;
    }
  }
}

}  // namespace

std::vector<IssuedInstruction> expand(const StageProgram& stage) {
  std::vector<Entry> entries;
  std::vector<Keyed> list = plain_order(stage, entries);
  pace_gathers(list);
  std::map<SlotId, std::int64_t> last_write;  // storage that lives for the step → key
  for (std::size_t e = 0; e < entries.size(); ++e) {
    for (std::int64_t p = entries[e].first; p <= entries[e].last; ++p) {
      const Instruction& i = *list[p].issued.instruction;
      std::int64_t& key = list[p].key;
      if (i.moved && i.opcode == Opcode::collective && list[p].issued.phase != Phase::gather) {
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
        if (stage.slots[storage_of(stage, slot)].lifetime == Lifetime::step) {
          last_write[storage_of(stage, slot)] = key;
        }
      }
    }
  }
  std::ranges::stable_sort(list, {}, &Keyed::key);
  std::vector<IssuedInstruction> order;
  order.reserve(list.size());
  for (const Keyed& keyed : list) {
    order.push_back(keyed.issued);
  }
  return order;
}

}  // namespace weft
