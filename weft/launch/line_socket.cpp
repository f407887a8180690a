#include "weft/launch/line_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20U;  // of a stranger that sends no newline

int try_address(const addrinfo& address, double timeout_s) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return -1;
  }
  int error = 0;
  socklen_t length = sizeof error;
  if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
    pollfd wait = {.fd = fd, .events = POLLOUT, .revents = 0};
    const bool ready =
        errno == EINPROGRESS && ::poll(&wait, 1, static_cast<int>(timeout_s * 1000)) == 1;
    if (!ready || ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
      ::close(fd);
      return -1;
    }
  }
  return fd;
}

}  // namespace

LineSocket::LineSocket(int fd) : fd_(fd) {
  if (fd_ >= 0) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  }
}

LineSocket::~LineSocket() {
  close();
}

LineSocket::LineSocket(LineSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), pending_(std::move(other.pending_)) {
}

LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(pending_, other.pending_);
  return *this;
}

void LineSocket::close() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

void LineSocket::send(const std::string& line) {
  if (fd_ >= 0) {
    const std::string text = line + "\n";
    [[maybe_unused]] const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
}

std::vector<std::string> LineSocket::receive() {
  std::vector<std::string> lines;
  char buffer[4096];
  while (fd_ >= 0) {
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n > 0) {
      pending_.append(buffer, static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    } else {
      close();
    }
    if (pending_.size() > kLongestLine) {
      close();
    }
  }
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(pending_.substr(begin, end - begin));
  }
  pending_.erase(0, begin);
  return lines;
}

Listener listen_at(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const sockaddr_in anywhere = address;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) == 0) {
    address.sin_addr = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
    ::freeaddrinfo(found);
  }
  Listener result;
  result.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto bind_to = [&](const sockaddr_in& where) {
    return ::bind(result.fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  };
  socklen_t length = sizeof address;
  if (result.fd < 0 || !(bind_to(address) || bind_to(anywhere)) || ::listen(result.fd, 1024) != 0 ||
      ::getsockname(result.fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    fail_environment("cannot listen for other ranks: {}", std::strerror(errno));
  }
  result.port = ntohs(address.sin_port);
  return result;
}

int connect_to(const std::string& host, int port, double timeout_s) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return -1;
  }
  int fd = -1;
  for (const addrinfo* a = found; a != nullptr && fd < 0; a = a->ai_next) {
    fd = try_address(*a, timeout_s);
  }
  ::freeaddrinfo(found);
  return fd;
}

}  // namespace weft
