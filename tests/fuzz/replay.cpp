// Runs every file of the corpora, and fixed changes of those that have a name, through its reader:
// an input that once crashed, hung or took too much memory does so no more, in whatever build this
// is.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <random>
#include <vector>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft::fuzz {

namespace {

namespace fs = std::filesystem;
using Bytes =
    std::vector<char>;  // without the 0 behind a std::string, so that ASan sees one too far

constexpr double kLongest_s = 10;           // of the processor, for one input
constexpr std::int64_t kMost_kb = 2 << 20;  // 2 GiB, the limit under which the corpora were found
constexpr int kChanges = 12;

/// Files that libFuzzer found are named by a hash. They are changes of others already.
bool is_found(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.size() == 40 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// The file, its two halves, and copies with a few bytes changed or a stretch repeated.
std::vector<Bytes> inputs_near(const std::string& file) {
  const Bytes whole(file.begin(), file.end());
  const auto middle = whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2);
  std::vector<Bytes> inputs = {whole, Bytes(whole.begin(), middle), Bytes(middle, whole.end())};
  std::minstd_rand random(static_cast<unsigned>(whole.size()) + 1);
  for (int change = 0; change < kChanges && !whole.empty(); ++change) {
    Bytes changed = whole;
    if (change % 3 == 2) {
      const std::size_t at = random() % whole.size();
      const std::size_t length = std::min<std::size_t>(random() % 64, whole.size() - at);
      changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(at),
                     whole.begin() + static_cast<std::ptrdiff_t>(at),
                     whole.begin() + static_cast<std::ptrdiff_t>(at + length));
    } else {
      for (int byte = 0; byte <= change; ++byte) {
        const std::string_view bytes = "0919-,:.\"[{}]e\\\xff/";
        changed[random() % changed.size()] = bytes[random() % bytes.size()];
      }
    }
    inputs.push_back(std::move(changed));
  }
  return inputs;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

/// The number of inputs that a reader took wrongly.
int replay(const Target& target, const fs::path& folder) {
  int wrong = 0;
  const std::vector<fs::path> files = files_of(folder);
  for (const fs::path& file : files) {
    std::vector<Bytes> inputs = inputs_near(read_file(file.string()));
    inputs.resize(is_found(file) ? 1 : inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::clock_t start = std::clock();
      std::string what = complaint(target.read, {inputs[i].data(), inputs[i].size()});
      const double time_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      if (what.empty() && time_s > kLongest_s) {
        what = fmt::format("{:.0f} s", time_s);
      }
      if (!what.empty()) {
        fmt::print("{} (change {}): {}\n", file.string(), i, what);
        ++wrong;
      }
    }
  }
  fmt::print("{}: {} files\n", target.name, files.size());
  return wrong + (files.empty() ? 1 : 0);  // a target has a corpus
}

int run(const std::string& corpus) {
  int wrong = 0;
  for (const Target& target : kTargets) {
    wrong += replay(target, fs::path(corpus) / target.name);
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  fmt::print("{} inputs were taken wrongly; {} MiB of memory\n", wrong, used.ru_maxrss / 1024);
  return wrong == 0 && used.ru_maxrss <= kMost_kb ? 0 : 1;
}

}  // namespace

}  // namespace weft::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: fuzz_replay CORPUS\n");
    return 2;
  }
  try {
    return weft::fuzz::run(argv[1]);
  } catch (const weft::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
