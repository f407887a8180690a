// Files of samples. Byte 0 says what reads them; for images with labels byte 1 says where, in
// 256ths of the rest, the file of labels begins. A source that opens gives its first and last
// sample.
#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/store/image_files.h"
#include "weft/store/npy.h"
#include "weft/store/token_file.h"

namespace weft::fuzz {

namespace {

using Bytes = std::span<const std::byte>;
constexpr const char* kName = "data";

void take_samples(const SampleSource& source) {
  static_cast<void>(source.description());
  for (const std::int64_t index : {std::int64_t{0}, source.samples() - 1}) {
    if (index >= 0 && index < source.samples()) {
      SampleBatch batch;
      source.append({.index = index, .visit = 3}, batch);
      static_cast<void>(source.counted({.index = index, .visit = 3}));
    }
  }
}

void take_tokens(TokenStream stream, SampleKind kind) {
  const DatasetOptions options{
      .kind = kind, .sequence = 4, .target_sequence = 3, .vocabulary = 300, .mask_id = 0};
  take_samples(*token_windows(std::move(stream), options));
}

DatasetOptions image_options(std::int64_t side, std::int64_t channels) {
  return {.kind = SampleKind::classify_image,
          .height = side,
          .width = side,
          .channels = channels,
          .vocabulary = 10};
}

void take_npy_images(Bytes file, bool noisy) {
  const std::size_t cut =
      file.empty() ? 0 : (file.size() - 1) * std::to_integer<std::size_t>(file[0]) / 256;
  const Bytes rest = file.empty() ? file : file.subspan(1);
  DatasetOptions options = image_options(2, 3);
  options.kind = noisy ? SampleKind::image_to_image : SampleKind::classify_image;
  const Bytes images = noisy ? rest : rest.first(cut);
  const Bytes labels = noisy ? Bytes{} : rest.subspan(cut);
  take_samples(
      *image_source({parse_npy_images(images, labels, kName, options)}, {}, kName, options));
}

}  // namespace

void data(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  const Bytes file = std::as_bytes(std::span(bytes.substr(1)));
  switch (bytes[0]) {
    case 'b':
      return take_tokens({.name = kName, .bytes = file, .width = 2}, SampleKind::next_token);
    case 'm':
      return take_tokens({.name = kName, .bytes = file, .width = 4}, SampleKind::masked_token);
    case 't':
      return take_tokens({.name = kName, .bytes = file}, SampleKind::sequence_to_sequence);
    case 'n':
      return take_tokens(npy_tokens(file, kName), SampleKind::next_token);
    case 'x':
      return static_cast<void>(parse_idx(file, kName));
    case 'c':
      return take_samples(
          *image_source({parse_cifar10(file, kName)}, {}, kName, image_options(32, 3)));
    case 'l':
      return take_npy_images(file, false);
    case 'i':
      return take_npy_images(file, true);
    default:
      static_cast<void>(format_npy(parse_npy(file, kName)));
  }
}

}  // namespace weft::fuzz
