#include "weft/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class File : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft_file_test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

 private:
  fs::path folder_;
};

template <typename Function>
std::string environment_error(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::environment);
    return error.what();
  }
  return "no error";
}

TEST_F(File, ReadsWhatWasWritten) {
  std::string content = "first line\n";
  content += '\0';
  content.append(200'000, 'x');
  write_file(path("a"), content);
  EXPECT_EQ(read_file(path("a")), content);
  write_file(path("a"), "");
  EXPECT_EQ(read_file(path("a")), "") << "an older content is replaced";
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}

TEST_F(File, SaysWhatCannotBeRead) {
  EXPECT_THAT(environment_error([&] { static_cast<void>(read_file(path("none"))); }),
              testing::AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(environment_error([&] { static_cast<void>(read_file(path(""))); }),
              HasSubstr("directory"));
}

TEST_F(File, LeavesNothingWhereItCannotWrite) {
  EXPECT_THAT(environment_error([&] { write_file(path("no/folder"), "x"); }),
              HasSubstr("no/folder"));
  fs::create_directory(path("folder"));
  EXPECT_THAT(environment_error([&] { write_file(path("folder"), "x"); }), HasSubstr("directory"));
  EXPECT_EQ(names(), std::set<std::string>{"folder"});
}

// A limit on the size of files stands in for a full disk: the write breaks off in the middle.
TEST_F(File, KeepsTheOldContentIfTheDiskIsFull) {
  write_file(path("plan.json"), "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message =
      environment_error([&] { write_file(path("plan.json"), std::string(5000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  static_cast<void>(std::signal(SIGXFSZ, handler));
  EXPECT_THAT(message, HasSubstr("plan.json"));
  EXPECT_EQ(read_file(path("plan.json")), "old");
  EXPECT_EQ(names(), std::set<std::string>{"plan.json"}) << "no unfinished file stays behind";
}

TEST_F(File, WritesThroughLinksAndToDevices) {
  write_file(path("target"), "old");
  fs::create_symlink(path("target"), path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("target")), "new");
  write_file("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(File, ReadsJsonAndNamesTheFile) {
  write_file(path("good.json"), R"({"batch": 8})");
  EXPECT_EQ(json_int(read_json(path("good.json")), "batch", "good.json"), 8);
  write_file(path("bad.json"), "{\n  \"batch\": 8,\n}");
  try {
    static_cast<void>(read_json(path("bad.json")));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    EXPECT_THAT(error.what(), HasSubstr("bad.json:3:1: not JSON"));
  }
}

}  // namespace
}  // namespace weft
