#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/store/dataset.h"

namespace weft {

/// Little-endian ids in memory that `owner` keeps: a mapped file, or what a tokenizer made of one.
struct TokenStream {
  std::string name;  // for messages
  std::span<const std::byte> bytes = {};
  std::size_t width = 1;  // bytes an id: 1, 2, 4 or 8
  bool has_sign = false;  // negative ids can be told from large ones
  std::shared_ptr<const void> owner = {};
};

/// The ids of a .npy: one dim of uint16, uint32, int32 or int64.
[[nodiscard]] TokenStream npy_tokens(std::span<const std::byte> file, const std::string& name);

/// Samples cut from a stream one after another. Ids that are not below the vocabulary are
/// Error{input} when they are reached; the first ones are looked at here.
[[nodiscard]] std::unique_ptr<const SampleSource> token_windows(TokenStream stream,
                                                                const DatasetOptions& options);

/// Bytes, or the tokens of `options.tokenizer`.
[[nodiscard]] std::unique_ptr<const SampleSource> text_file(const std::string& path,
                                                            const DatasetOptions& options);
/// .npy, or uint16 (uint32 when the vocabulary needs it).
[[nodiscard]] std::unique_ptr<const SampleSource> token_file(const std::string& path,
                                                             const DatasetOptions& options);

}  // namespace weft
