#pragma once

namespace weft {

/// Loading libtorch takes most of a second of a processor, so the ranks of a host share it: the
/// launcher executes the worker's program once, with these variables set. Before anything else the
/// program forks once for each rank, tells the launcher their numbers and ends. The ranks are then
/// the launcher's (a "subreaper", prctl(2)), and die with it.
inline constexpr const char* kForkRanks = "WEFT_FORK_RANKS";  // how many

/// Descriptors of that program: it writes the ranks' process numbers (pid_t, in their order) to
/// the first; rank r finds its own three (ends of the report and output pipes, activity memory)
/// behind it, from kFirstRankFd + 3 r on.
inline constexpr int kBirthsFd = 3;
inline constexpr int kFirstRankFd = 4;
/// Exit status of a rank that found no launcher, for its start was cut short.
inline constexpr int kNotBorn = 126;
/// In a rank.
inline constexpr int kReportFd = 3;
inline constexpr int kSharedFd = 4;

/// The first line of a worker's main, before it starts a thread. If a launcher asked for ranks it
/// returns once in each, with RANK and LOCAL_RANK set and the descriptors in place; else it does
/// nothing.
void fork_ranks();

}  // namespace weft
