#include "weft/launch/reserved_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <set>
#include <vector>

namespace weft {
namespace {

/// A socket that listens at the port (0: any), at all addresses; nothing if it may not.
std::optional<int> listen_with_reuse(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, 4) == 0) {
    return fd;
  }
  ::close(fd);
  return std::nullopt;
}

TEST(ReservedPort, IsForTheOneWhoKnowsIt) {
  const ReservedPort port;
  const auto first = listen_with_reuse(port.number());
  ASSERT_TRUE(first);
  EXPECT_FALSE(listen_with_reuse(port.number()));
  ::close(*first);
}

TEST(ReservedPort, IsGivenToNobodyElse) {
  // Reservations and listeners that take any port use up a part of the range; none meets another.
  constexpr int kEach = 400;
  std::vector<std::optional<ReservedPort>> ports(kEach);
  std::vector<int> listeners;
  std::set<int> numbers;
  for (auto& port : ports) {
    numbers.insert(port.emplace().number());
    const auto listener = listen_with_reuse(0);
    ASSERT_TRUE(listener);
    listeners.push_back(*listener);
    sockaddr_in address = {};
    socklen_t length = sizeof address;
    ASSERT_EQ(::getsockname(*listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
    numbers.insert(ntohs(address.sin_port));
  }
  EXPECT_EQ(numbers.size(), 2 * kEach);
  for (const int fd : listeners) {
    ::close(fd);
  }
}

}  // namespace
}  // namespace weft
