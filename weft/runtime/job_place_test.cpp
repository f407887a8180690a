#include "weft/runtime/job_place.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/runtime/learning_rate.h"

namespace weft {
namespace {

Environment of(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
}

TEST(JobPlace, IsAloneWithoutALauncher) {
  const JobPlace place = place_in_job(of({{"MASTER_PORT", "7"}}));
  EXPECT_EQ(place.rendezvous.world, 1);
  EXPECT_EQ(place.rendezvous.rank, 0);
}

TEST(JobPlace, ReadsTorchrun) {
  const JobPlace place = place_in_job(of({{"RANK", "3"},
                                          {"WORLD_SIZE", "8"},
                                          {"LOCAL_WORLD_SIZE", "4"},
                                          {"MASTER_ADDR", "host-a"},
                                          {"MASTER_PORT", "1234"},
                                          {"TORCHELASTIC_RUN_ID", "run"},
                                          {"SLURM_JOB_ID", "9"},
                                          {"SLURM_PROCID", "5"}}));
  EXPECT_EQ(place.rendezvous.rank, 3);
  EXPECT_EQ(place.rendezvous.world, 8);
  EXPECT_EQ(place.local_world, 4);
  EXPECT_EQ(place.rendezvous.host, "host-a");
  EXPECT_EQ(place.rendezvous.port, 1234);
  EXPECT_EQ(place.rendezvous.job, "run");
}

TEST(JobPlace, ReadsSlurm) {
  const JobPlace place = place_in_job(of({{"SLURM_PROCID", "1"},
                                          {"SLURM_NTASKS", "4"},
                                          {"SLURM_NTASKS_PER_NODE", "2"},
                                          {"SLURM_STEP_NODELIST", "n[07-08]"},
                                          {"SLURM_JOB_ID", "12042"},
                                          {"SLURM_STEP_ID", "3"}}));
  EXPECT_EQ(place.rendezvous.host, "n07");
  EXPECT_EQ(place.rendezvous.port, 29542);
  EXPECT_EQ(place.rendezvous.job, "12042.3");
}

TEST(JobPlace, ReadsMpirunAndAsksForTheHost) {
  std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "0"},
                                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(place_in_job(of(variables)).rendezvous.host, "127.0.0.1");
  EXPECT_EQ(place_in_job(of(variables)).rendezvous.job, "");
  variables["PMIX_NAMESPACE"] = "77";
  EXPECT_EQ(place_in_job(of(variables)).rendezvous.job, "77");
  variables["WEFT_JOB"] = "mine";
  EXPECT_EQ(place_in_job(of(variables)).rendezvous.job, "mine");
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_THROW(static_cast<void>(place_in_job(of(variables))), Error);
}

TEST(JobPlace, RejectsNonsense) {
  EXPECT_THROW(static_cast<void>(place_in_job(of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}))), Error);
  EXPECT_THROW(static_cast<void>(place_in_job(of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}))), Error);
  EXPECT_THROW(static_cast<void>(place_in_job(of({{"RANK", "0"}}))), Error);
}

TEST(JobPlace, FindsTheFirstHost) {
  EXPECT_EQ(first_host("a"), "a");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("n[3,5-7]"), "n3");
  EXPECT_EQ(first_host("n[12]-x"), "n12");
}

TEST(LearningRate, RisesThenFalls) {
  LearningRate rate{.peak = 8, .schedule = "linear", .warmup = 4, .steps = 12};
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 1), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 4), 8);
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 5), 8);
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 9), 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 12), 1);
  rate.schedule = "cosine";
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 5), 8);
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 9), 4);
  rate.schedule = "constant";
  EXPECT_DOUBLE_EQ(learning_rate_at(rate, 12), 8);
  rate.schedule = "step";
  EXPECT_THROW(static_cast<void>(learning_rate_at(rate, 1)), Error);
}

}  // namespace
}  // namespace weft
