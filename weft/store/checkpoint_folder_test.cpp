#include "weft/store/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/store/shards.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() { std::filesystem::remove_all(folder_); }
  ~CheckpointFolder() override { std::filesystem::remove_all(folder_); }

  CheckpointInfo save(std::int64_t step, std::uint64_t seed = 7) const {
    const std::vector<float> data(4, static_cast<float>(seed));
    for (int rank = 0; rank < 2; ++rank) {
      write_shards(unfinished_path(folder_, step), rank,
                   {{"w", "F32", {8}, {{4 * rank}, {4}}, std::as_bytes(std::span(data))}});
    }
    const CheckpointInfo info{.step = step,
                              .ranks = 2,
                              .seed = seed,
                              .model = "m",
                              .model_hash = "h",
                              .data = "d",
                              .batch = 4};
    publish_checkpoint(folder_, info);
    return info;
  }
  std::string folder_ = testing::TempDir() + "/weft_checkpoints_" + std::to_string(::getpid());
};

std::string complaint(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(CheckpointFolder, ShowsWholeCheckpointsNewestFirst) {
  save(3);
  const CheckpointInfo info = save(12);
  save(5);
  std::filesystem::create_directories(unfinished_path(folder_, 20));
  std::filesystem::create_directories(folder_ + "/step-00000030");  // no checkpoint.json
  EXPECT_THAT(checkpoints_in(folder_), ElementsAre(12, 5, 3));
  EXPECT_EQ(read_checkpoint_info(checkpoint_path(folder_, 12)), info);
  EXPECT_NO_THROW(verify_checkpoint(checkpoint_path(folder_, 12)));
  EXPECT_TRUE(is_checkpoint(checkpoint_path(folder_, 5)));
  EXPECT_FALSE(is_checkpoint(folder_));
  keep_newest_checkpoints(folder_, 2);
  EXPECT_THAT(checkpoints_in(folder_), ElementsAre(12, 5));
  remove_unfinished(folder_);
  EXPECT_FALSE(std::filesystem::exists(unfinished_path(folder_, 20)));
}

TEST_F(CheckpointFolder, ReplacesOneOfTheSameStep) {
  save(3, 7);
  save(3, 8);
  EXPECT_EQ(read_checkpoint_info(checkpoint_path(folder_, 3)).seed, 8U);
  EXPECT_FALSE(std::filesystem::exists(unfinished_path(folder_, 3)));
}

TEST_F(CheckpointFolder, NamesWhatIsDamaged) {
  save(3);
  const std::string path = checkpoint_path(folder_, 3);
  const std::string shard = path + "/rank-00001.safetensors";
  std::string bytes = read_file(shard);
  bytes.back() = 'x';
  write_file(shard, bytes);
  EXPECT_NO_THROW(verify_checkpoint(path, 0, 2));
  EXPECT_THAT(complaint([&] { verify_checkpoint(path, 1, 2); }),
              testing::StartsWith(shard + ": tensor 'w' is damaged"));
  std::filesystem::remove(shard);
  EXPECT_THAT(complaint([&] { verify_checkpoint(path); }), HasSubstr("is missing"));
  std::string info = read_file(path + "/checkpoint.json");
  info.replace(info.find("\"batch\": 4"), 10, "\"batch\": 5");
  write_file(path + "/checkpoint.json", info);
  EXPECT_THAT(complaint([&] { verify_checkpoint(path); }),
              HasSubstr("checkpoint.json: is damaged"));
}

}  // namespace
}  // namespace weft
