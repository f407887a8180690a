#include "weft/store/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "weft/base/error.h"

namespace weft {

namespace {

std::string reason(int code) {
  return std::generic_category().message(code);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    fail_environment("{}: cannot open: {}", path, reason(errno));
  }
  struct stat status = {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    fail_environment("{}: not a regular file", path);
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    address_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int code = errno;
  ::close(file);  // the mapping keeps the file
  if (address_ == MAP_FAILED) {
    fail_environment("{}: cannot map {} bytes: {}", path, size_, reason(code));
  }
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) {
    ::munmap(address_, size_);
  }
}

}  // namespace weft
