#include "weft/solver/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {
namespace {

// Ends the stream on every way out.
struct Inflater {
  z_stream stream{};

  Inflater() {
    constexpr int gzip_only = 16;
    WEFT_CHECK(inflateInit2(&stream, MAX_WBITS + gzip_only) == Z_OK);
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  Inflater(Inflater&&) = delete;
  Inflater& operator=(Inflater&&) = delete;
};

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string gunzip(std::string_view bytes, const std::string& what, std::size_t most) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string out;
  std::array<char, 1U << 16U> buffer{};
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      require(!bytes.empty(), "{}: the gzip data ends too early; copy the file again", what);
      const std::size_t part =
          std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
      stream.avail_in = static_cast<uInt>(part);
      bytes.remove_prefix(part);
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    state = inflate(&stream, Z_NO_FLUSH);
    require(state == Z_OK || state == Z_STREAM_END || state == Z_BUF_ERROR,
            "{}: the gzip data is damaged ({}); copy the file again", what,
            stream.msg == nullptr ? "no reason given" : stream.msg);
    out.append(buffer.data(), buffer.size() - stream.avail_out);
    require(out.size() <= most, "{}: more than {} after decompression", what,
            format_bytes(static_cast<double>(most)));
  }
  return out;
}

}  // namespace weft
