#include "weft/runtime/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "weft/runtime/communicator.h"  // PeerError

namespace weft {

void Pieces::add(void* data, std::size_t bytes) {
  if (bytes > 0) {
    ends_.push_back(this->bytes() + bytes);
    list_.emplace_back(static_cast<std::byte*>(data), bytes);
  }
}

std::size_t Pieces::find(std::size_t byte) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, byte) - ends_.begin());
}

void Pieces::copy_to(std::byte* to, std::size_t begin, std::size_t end) const {
  visit(begin, end, [&](std::span<std::byte> part) {
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  });
}

void Pieces::copy_from(const std::byte* from, std::size_t begin, std::size_t end) const {
  visit(begin, end, [&](std::span<std::byte> part) {
    std::memcpy(part.data(), from, part.size());
    from += part.size();
  });
}

bool operator==(const Pieces& a, const Pieces& b) {
  return a.ends_ == b.ends_ && std::ranges::equal(a.list_, b.list_, {}, &std::span<std::byte>::data,
                                                  &std::span<std::byte>::data);
}

void await_all_know(Store& store, const Members& members, const std::string& reason) {
  const auto key = [&](int rank) {
    return fmt::format("{}/{} known/{}", members.name, reason, rank);
  };
  const int self = members.ranks[members.self];
  try {
    store.set(key(self), "yes");
    if (self == 0) {
      for (const int rank : members.ranks) {
        static_cast<void>(store.get(key(rank)));
      }
    }
  } catch (const PeerError&) {  // somebody is gone already: the reason is worth more than that
  }
}

bool all_agree(Store& store, const Members& members, const std::string& question, bool yes) {
  const auto key = [&](int rank) { return fmt::format("{}/{}/{}", members.name, question, rank); };
  store.set(key(members.ranks[members.self]), yes ? "yes" : "no");
  const bool all =
      std::ranges::all_of(members.ranks, [&](int rank) { return store.get(key(rank)) == "yes"; });
  if (!all) {
    await_all_know(store, members, question);
  }
  return all;
}

}  // namespace weft
