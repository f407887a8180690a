// A socket that is bound and never listens. Linux lets two sockets with SO_REUSEADDR be bound to
// one port as long as neither listens, but only if the second one asks for this very port: bind to
// port 0 and connect take ports that nobody is bound to. So between the choice of a port and the
// moment at which rank 0 listens there, however long that takes, no other job can come by it.
#include "weft/launch/reserved_port.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"

namespace weft {

ReservedPort::ReservedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (fd_ < 0 || ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const int error = errno;
    if (fd_ >= 0) {
      ::close(fd_);
    }
    fail_environment("no free port on the loopback interface: {}", std::strerror(error));
  }
  number_ = ntohs(address.sin_port);
}

ReservedPort::~ReservedPort() {
  ::close(fd_);
}

}  // namespace weft
