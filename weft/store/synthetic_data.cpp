// Token models get a Markov chain of order one: each state has four successors, taken with
// probabilities 0.6, 0.2, 0.1 and 0.05, and with 0.05 any state follows. The entropy of a step is
// about 1.4 nats, so the loss falls from log(vocabulary) to there. Few states (256 at most, spread
// over the vocabulary) keep the chain learnable in some hundred steps. Feature models get one
// Gaussian cluster a label. Every sample is new: there is no epoch.
#include "weft/store/synthetic_data.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "weft/base/error.h"
#include "weft/base/random.h"

namespace weft {

namespace {

constexpr std::int64_t kMaxStates = 256;
constexpr std::array<double, 4> kCumulative = {0.6, 0.8, 0.9, 0.95};
constexpr double kNoise = 0.5;  // of a feature, where the centres have deviation 1

// Who asks for random numbers; each has a stream of its own.
enum Purpose : std::uint32_t { kSuccessors = 1, kWalk, kIgnore, kLabel, kCentre, kFeature };

class SyntheticData : public Dataset {
 public:
  SyntheticData(const DatasetOptions& options, double ignore)
      : options_(options),
        ignore_(ignore),
        states_(std::min(options.vocabulary, kMaxStates)),
        per_sample_(std::max(options.sequence, options.features) + 1) {}

  [[nodiscard]] SampleBatch batch(std::int64_t step, std::int64_t samples) const override {
    WEFT_CHECK(step >= 0 && samples > 0);
    SampleBatch result;
    result.samples = samples;
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto sample = static_cast<std::uint64_t>(step * samples + i);
      if (options_.sequence > 0) {
        append_walk(sample, result);
      } else {
        append_point(sample, result);
      }
    }
    return result;
  }

  [[nodiscard]] std::string description() const override {
    const std::string kind = options_.sequence > 0
                                 ? fmt::format("synthetic tokens ({} states)", states_)
                                 : fmt::format("synthetic clusters ({})", options_.vocabulary);
    return ignore_ > 0 ? fmt::format("{}, {:.3g} of the labels ignored", kind, ignore_) : kind;
  }

 private:
  [[nodiscard]] RandomStream stream(Purpose purpose) const {
    return {.seed = options_.seed, .step = 0, .node = purpose};
  }
  /// Element of a stream that belongs to place `i` of a sample.
  [[nodiscard]] std::uint64_t element(std::uint64_t sample, std::int64_t i) const {
    return sample * static_cast<std::uint64_t>(per_sample_) + static_cast<std::uint64_t>(i);
  }
  [[nodiscard]] std::int64_t below(double uniform, std::int64_t limit) const {
    return std::min(limit - 1, static_cast<std::int64_t>(uniform * static_cast<double>(limit)));
  }

  [[nodiscard]] std::int64_t successor(std::int64_t state, double uniform) const {
    const auto* const which = std::ranges::upper_bound(kCumulative, uniform);
    if (which == kCumulative.end()) {
      return below((uniform - kCumulative.back()) / (1 - kCumulative.back()), states_);
    }
    const auto choice = static_cast<std::uint64_t>(which - kCumulative.begin());
    const std::uint64_t place = static_cast<std::uint64_t>(state) * kCumulative.size() + choice;
    return below(stream(kSuccessors).uniform(place), states_);
  }

  void append_walk(std::uint64_t sample, SampleBatch& batch) const {
    const RandomStream walk = stream(kWalk);
    std::int64_t state = below(walk.uniform(element(sample, 0)), states_);
    for (std::int64_t t = 1; t <= options_.sequence; ++t) {
      batch.tokens.push_back(id(state));
      state = successor(state, walk.uniform(element(sample, t)));
      append_label(sample, t, id(state), batch);
    }
  }

  void append_point(std::uint64_t sample, SampleBatch& batch) const {
    const std::int64_t label =
        below(stream(kLabel).uniform(element(sample, 0)), options_.vocabulary);
    for (std::int64_t i = 0; i < options_.features; ++i) {
      const auto centre = static_cast<std::uint64_t>(label * options_.features + i);
      batch.features.push_back(static_cast<float>(
          normal(stream(kCentre), centre) + kNoise * normal(stream(kFeature), element(sample, i))));
    }
    append_label(sample, 0, label, batch);
  }

  void append_label(std::uint64_t sample, std::int64_t i, std::int64_t label,
                    SampleBatch& batch) const {
    const bool ignored = stream(kIgnore).uniform(element(sample, i)) < ignore_;
    batch.labels.push_back(ignored ? kIgnoredLabel : label);
    batch.counted += ignored ? 0 : 1;
  }

  [[nodiscard]] std::int64_t id(std::int64_t state) const {
    return state * options_.vocabulary / states_;
  }

  DatasetOptions options_;
  double ignore_;
  std::int64_t states_;
  std::int64_t per_sample_;
};

}  // namespace

std::unique_ptr<Dataset> synthetic_data(const std::string& arguments,
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
