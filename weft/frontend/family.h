#pragma once

#include <string_view>
#include <vector>

#include "weft/frontend/model.h"
#include "weft/frontend/network.h"
#include "weft/frontend/settings.h"

namespace weft {

class HfConfig;

/// Models that differ in sizes only.
struct Family {
  std::string_view name;
  std::vector<Key> keys;
  Model (*build)(Settings, const ModelOptions&, const OpTable&) = nullptr;
  /// Values of model_type in Hugging Face's config.json that are this family.
  std::vector<std::string_view> hf_types = {};
  /// "family:settings" of such a config.
  std::string (*describe)(HfConfig&, const std::string& type) = nullptr;
};

/// The model that `Builder(sizes, net).build()` writes; that returns the loss.
template <typename Builder, typename Sizes>
[[nodiscard]] Model written(const Settings& settings, const Sizes& sizes,
                            const ModelOptions& options, const OpTable& ops) {
  Model model;
  model.description = settings.description();
  Network net(model.forward, ops, options.dtype);
  model.forward.loss = Builder(sizes, net).build();
  model.stored = net.take_stored();
  model.stored_counts = net.take_stored_counts();
  return model;
}

// Bounds with which no tensor of a graph can overflow 64 bits.
inline constexpr std::int64_t kMaxLayers = 10'000;
inline constexpr std::int64_t kMaxWidth = 1 << 18;
inline constexpr std::int64_t kMaxSequence = 1 << 20;
inline constexpr std::int64_t kMaxImage = 1 << 14;
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 31;

/// The sequence length that the user asks for takes the place of the model's.
void override_sequence(Settings& settings, const ModelOptions& options);
/// For models without one.
void refuse_sequence(std::string_view family, const ModelOptions& options);

[[nodiscard]] Family bert_family();
[[nodiscard]] Family gpt_family();
[[nodiscard]] Family llama_family();
[[nodiscard]] Family mlp_family();
[[nodiscard]] Family neox_family();
[[nodiscard]] Family resnet_family();
[[nodiscard]] Family swin_family();
[[nodiscard]] Family t5_family();
[[nodiscard]] Family unet_family();
[[nodiscard]] Family vgg_family();
[[nodiscard]] Family vit_family();
[[nodiscard]] std::vector<Family> families();

/// The dtype of sums over a model's numbers: losses, counts.
[[nodiscard]] DType loss_dtype(DType dtype);

}  // namespace weft
