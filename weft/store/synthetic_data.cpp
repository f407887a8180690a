// Token models get a Markov chain of order one: each state has four successors, taken with
// probabilities 0.6, 0.2, 0.1 and 0.05, and with 0.05 any state follows. The entropy of a step is
// about 1.4 nats, so the loss falls from log(vocabulary) to there. Few states (256 at most, spread
// over the vocabulary) keep the chain learnable in some hundred steps. Feature models get one
// cluster a label, image models one pattern of 8 × 8 patches a label, both under uniform noise: one
// random word a number, so that making samples takes no processor from training. Every sample is
// new: there is no epoch.
#include "weft/store/synthetic_data.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/store/image_samples.h"
#include "weft/store/token_samples.h"

namespace weft {

namespace {

constexpr std::int64_t kMaxStates = 256;
constexpr std::array<double, 4> kCumulative = {0.6, 0.8, 0.9, 0.95};
constexpr double kNoise = 0.5;        // deviation, where that of the centres is 1
constexpr std::int64_t kPatches = 8;  // of a pattern, along each side
constexpr std::int64_t kMostCentres = std::int64_t{1} << 20U;  // that are kept
constexpr std::int64_t kPatterns = 10;                         // of images without labels

// Who asks for random numbers; each has a stream of its own.
enum Purpose : std::uint32_t { kSuccessors = 1, kWalk, kIgnore, kLabel, kCentre, kFeature };

std::int64_t below(double uniform, std::int64_t limit) {
  return std::min(limit - 1, static_cast<std::int64_t>(uniform * static_cast<double>(limit)));
}

class SyntheticData : public SampleSource {
 public:
  SyntheticData(const DatasetOptions& options, double ignore)
      : options_(options),
        ignore_(ignore),
        states_(std::min(options.vocabulary, kMaxStates)),
        classes_(options.vocabulary > 0 ? options.vocabulary : kPatterns),
        per_sample_(options.sequence + 1) {
    if (options.sequence > 0) {
      window_ = token_window(options);
      per_sample_ = std::max(per_sample_, window_.tokens);
    }
    if (options.features > 0 && classes_ * options.features <= kMostCentres) {
      for (std::int64_t i = 0; i < classes_ * options.features; ++i) {
        centres_.push_back(centre(i));
      }
    }
  }

  [[nodiscard]] std::int64_t samples() const override { return 0; }

  void append(const SampleKey& key, SampleBatch& batch) const override {
    const std::size_t labels = batch.labels.size();
    if (options_.sequence > 0) {
      append_token_sample(walk(key), key, options_, batch);
    } else if (options_.features > 0) {
      append_point(key, batch);
    } else {
      const std::int64_t label = label_of(key);
      append_image_sample(pattern(key, label), label, key, options_, batch);
    }
    for (std::size_t i = labels; i < batch.labels.size() && ignore_ > 0; ++i) {
      if (is_ignored(key, static_cast<std::int64_t>(i - labels))) {
        batch.labels[i] = kIgnoredLabel;
      }
    }
  }

  [[nodiscard]] std::optional<std::int64_t> fixed_count() const override {
    return ignore_ > 0 ? std::nullopt : std::optional(labels_of_sample());
  }

  // Which labels masked_token asks for is only known when the sample is made.
  [[nodiscard]] std::int64_t counted(const SampleKey& key) const override {
    std::int64_t count = 0;
    if (ignore_ > 0 && options_.kind == SampleKind::masked_token) {
      SampleBatch sample;
      append(key, sample);
      return static_cast<std::int64_t>(sample.labels.size()) -
             std::ranges::count(sample.labels, kIgnoredLabel);
    }
    for (std::int64_t i = 0; i < labels_of_sample(); ++i) {
      count += ignore_ > 0 && is_ignored(key, i) ? 0 : 1;
    }
    return count;
  }

  [[nodiscard]] std::string description() const override {
    const std::string kind =
        options_.sequence > 0   ? fmt::format("synthetic tokens ({} states)", states_)
        : options_.features > 0 ? fmt::format("synthetic clusters ({})", classes_)
                                : fmt::format("synthetic images ({} patterns)", classes_);
    return ignore_ > 0 ? fmt::format("{}, {:.3g} of the labels ignored", kind, ignore_) : kind;
  }

 private:
  /// Random numbers of the samples; those that are evaluated have their own.
  [[nodiscard]] RandomStream stream(Purpose purpose, const SampleKey& key) const {
    return {.seed = options_.seed, .step = key.evaluation ? 1U : 0U, .node = purpose};
  }
  /// Random numbers of what all samples share.
  [[nodiscard]] RandomStream shared(Purpose purpose) const {
    return {.seed = options_.seed, .step = 0, .node = purpose};
  }
  /// Element of a stream that belongs to place `i` of a sample.
  [[nodiscard]] std::uint64_t element(const SampleKey& key, std::int64_t i) const {
    return static_cast<std::uint64_t>(key.visit) * static_cast<std::uint64_t>(per_sample_) +
           static_cast<std::uint64_t>(i);
  }
  [[nodiscard]] std::int64_t labels_of_sample() const {
    return options_.sequence > 0 ? window_.counted : image_labels(options_);
  }
  // Places of labels in a walk count from 1: label i is token i + 1.
  [[nodiscard]] bool is_ignored(const SampleKey& key, std::int64_t i) const {
    const std::int64_t place = options_.sequence > 0 ? i + 1 : 0;
    return stream(kIgnore, key).uniform(element(key, place)) < ignore_;
  }
  [[nodiscard]] std::int64_t label_of(const SampleKey& key) const {
    return below(stream(kLabel, key).uniform(element(key, 0)), classes_);
  }

  [[nodiscard]] std::int64_t successor(std::int64_t state, double uniform) const {
    const auto* const which = std::ranges::upper_bound(kCumulative, uniform);
    if (which == kCumulative.end()) {
      return below((uniform - kCumulative.back()) / (1 - kCumulative.back()), states_);
    }
    const auto choice = static_cast<std::uint64_t>(which - kCumulative.begin());
    const std::uint64_t place = static_cast<std::uint64_t>(state) * kCumulative.size() + choice;
    return below(shared(kSuccessors).uniform(place), states_);
  }

  [[nodiscard]] std::vector<std::int64_t> walk(const SampleKey& key) const {
    const RandomStream random = stream(kWalk, key);
    std::int64_t state = below(random.uniform(element(key, 0)), states_);
    std::vector<std::int64_t> ids = {id(state)};
    for (std::int64_t t = 1; t < window_.tokens; ++t) {
      state = successor(state, random.uniform(element(key, t)));
      ids.push_back(id(state));
    }
    return ids;
  }

  [[nodiscard]] float centre(std::int64_t place) const {
    return static_cast<float>(normal(shared(kCentre), static_cast<std::uint64_t>(place)));
  }

  // Uniform in ±a has deviation a / √3.
  void add_noise(const SampleKey& key, std::span<float> sample) const {
    add_uniform_noise(stream(kFeature, key), static_cast<std::uint64_t>(key.visit),
                      kNoise * std::sqrt(3.0), sample);
  }

  void append_point(const SampleKey& key, SampleBatch& batch) const {
    const std::int64_t label = label_of(key);
    const std::size_t first = batch.features.size();
    for (std::int64_t i = 0; i < options_.features; ++i) {
      const std::int64_t place = label * options_.features + i;
      batch.features.push_back(centres_.empty() ? centre(place)
                                                : centres_[static_cast<std::size_t>(place)]);
    }
    add_noise(key, std::span(batch.features).subspan(first));
    batch.labels.push_back(label);
  }

  [[nodiscard]] std::vector<float> pattern(const SampleKey& key, std::int64_t label) const {
    const std::int64_t h = options_.height;
    const std::int64_t w = options_.width;
    const std::int64_t c = options_.channels;
    std::vector<float> centres(static_cast<std::size_t>(kPatches * kPatches * c));
    for (std::size_t i = 0; i < centres.size(); ++i) {
      centres[i] =
          centre(label * static_cast<std::int64_t>(centres.size()) + static_cast<std::int64_t>(i));
    }
    std::vector<float> image(static_cast<std::size_t>(h * w * c));
    for (std::int64_t i = 0; i < h * w * c; ++i) {
      const std::int64_t y = i / (w * c) * kPatches / h;
      const std::int64_t x = i / c % w * kPatches / w;
      image[static_cast<std::size_t>(i)] =
          centres[static_cast<std::size_t>((y * kPatches + x) * c + i % c)];
    }
    add_noise(key, image);
    return image;
  }

  [[nodiscard]] std::int64_t id(std::int64_t state) const {
    return state * options_.vocabulary / states_;
  }

  DatasetOptions options_;
  double ignore_;
  std::int64_t states_;
  std::int64_t classes_;
  std::int64_t per_sample_;
  TokenWindow window_;
  std::vector<float> centres_;  // of points, by label; none: too many to keep
};

}  // namespace

std::unique_ptr<const SampleSource> synthetic_data(const std::string& arguments,
                                                   const DatasetOptions& options) {
  double ignore = 0;
  if (!arguments.empty()) {
    const std::string key = "ignore=";
    const char* const end = arguments.data() + arguments.size();
    bool ok = arguments.starts_with(key);
    if (ok) {
      const auto [stop, code] = std::from_chars(arguments.data() + key.size(), end, ignore);
      ok = code == std::errc() && stop == end && ignore >= 0 && ignore < 1;
    }
    require(ok, "synthetic:{}: write synthetic:ignore=SHARE with 0 <= SHARE < 1", arguments);
  }
  return std::make_unique<SyntheticData>(options, ignore);
}

}  // namespace weft
