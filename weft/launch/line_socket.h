#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// A connected TCP socket that carries lines. Never blocks: what cannot be sent at once is dropped,
/// for a peer that does not read is a peer that hangs.
class LineSocket {
 public:
  explicit LineSocket(int fd);
  ~LineSocket();
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  void send(const std::string& line);
  /// Complete lines that have come. The socket is closed if the other end is.
  [[nodiscard]] std::vector<std::string> receive();
  void close();

 private:
  int fd_ = -1;
  std::string pending_;
};

/// A socket that waits for connections, on a port that the system chose.
struct Listener {
  int fd = -1;
  int port = 0;
};
/// At the address of `host`, which is this machine; at all of its addresses if `host` is none of
/// them (as behind a translated address). Throws Error{environment}.
[[nodiscard]] Listener listen_at(const std::string& host);

/// Connects within the time, or gives -1.
[[nodiscard]] int connect_to(const std::string& host, int port, double timeout_s);

}  // namespace weft
