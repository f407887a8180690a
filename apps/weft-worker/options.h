#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct WorkerOptions {
  std::string plan;
  std::string data = "synthetic";
  std::string tokenizer;          // for text; empty: bytes
  double held_out = 0;            // share of the samples that is not trained on
  std::int64_t eval_every = 0;    // steps between evaluations on the held-out part; 0: none
  std::int64_t eval_batches = 0;  // at most so many batches of it; 0: all
  std::int64_t steps = 1;
  double learning_rate = -1;  // below 0: the optimizer's default
  std::string schedule = "constant";
  std::int64_t warmup = 0;
  std::string weights;  // files to begin from instead of random numbers
  std::string save;
  std::int64_t save_every = 0;
  std::int64_t keep = 0;  // newest checkpoints that stay; 0: all
  std::string resume;
  std::string dump;
  std::string trace;
  std::string board;           // file where the devices of an emulated cluster meet
  double slow_down = 0;        // of an emulated cluster; 0: as much as this machine needs
  double measure_s = 0;        // measure links and disk for so long instead of training
  std::string measure_folder;  // on the disk to measure
  int threads = 0;             // 0: OMP_NUM_THREADS, else this host's cores divided among its ranks
  double timeout_s = 300;
  double patience_s = 6;  // without a sign of life of a peer; where no launcher watches
};

}  // namespace weft
