// Every instruction gets a key: twice its place in the plain order of the schedule. Moved ones take
// an odd key just behind or before another place; a stable sort by key is the order of issue.

#include "weft/program/expand.h"

#include <algorithm>
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

}  // namespace

std::vector<IssuedInstruction> expand(const StageProgram& stage) {
  std::vector<Entry> entries;
  std::vector<Keyed> list = plain_order(stage, entries);
  std::map<SlotId, std::int64_t> last_write;  // storage that lives for the step → key
  for (std::size_t e = 0; e < entries.size(); ++e) {
    for (std::int64_t p = entries[e].first; p <= entries[e].last; ++p) {
      const Instruction& i = *list[p].issued.instruction;
      std::int64_t& key = list[p].key;
      if (i.moved && i.opcode == Opcode::collective) {
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
