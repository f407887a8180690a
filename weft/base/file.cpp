#include "weft/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) {
  return std::generic_category().message(error);
}

// Closes on every way out.
class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  FileHandle(FileHandle&&) = delete;
  FileHandle& operator=(FileHandle&&) = delete;
  ~FileHandle() { close(); }

  [[nodiscard]] int get() const { return fd_; }
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

// Removes the unfinished file unless the rename has taken it away.
class Unfinished {
 public:
  explicit Unfinished(std::string path) : path_(std::move(path)) {}
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  Unfinished(Unfinished&&) = delete;
  Unfinished& operator=(Unfinished&&) = delete;
  ~Unfinished() {
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

void write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      fail_environment("cannot write {}: {}", path, reason(errno));
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Pipes and devices (/dev/stdout) cannot be replaced by a file.
void write_in_place(const std::string& path, std::string_view content) {
  FileHandle file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) {
    fail_environment("cannot write {}: {}", path, reason(errno));
  }
  write_all(file.get(), content, path);
}

// Processes and threads that write the same file must not share the unfinished one.
std::string unfinished_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter++);
}

}  // namespace

std::string read_file(const std::string& path) {
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    fail_environment("cannot read {}: {}", path, reason(errno));
  }
  std::string content;
  std::array<char, 1U << 16U> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail_environment("cannot read {}: {}", path, reason(errno));
    }
    if (got == 0) {
      return content;
    }
    content.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void write_file(const std::string& path, std::string_view content) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) {
    fail_environment("cannot write {}: it is a directory", path);
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    write_in_place(path, content);
    return;
  }
  // A link stays a link: what it points to is replaced.
  const std::string target = fs::exists(status) ? fs::canonical(path, ignored).string() : path;
  const std::string unfinished = unfinished_name(target);
  FileHandle file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    fail_environment("cannot write {}: {}", path, reason(errno));
  }
  Unfinished guard(unfinished);
  write_all(file.get(), content, path);
  // On disk before the new name shows, or a crash could leave an empty file under it.
  if (::fsync(file.get()) != 0 || !file.close() ||
      ::rename(unfinished.c_str(), target.c_str()) != 0) {
    fail_environment("cannot write {}: {}", path, reason(errno));
  }
  guard.keep();
}

}  // namespace weft
