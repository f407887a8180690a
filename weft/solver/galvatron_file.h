#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "weft/solver/strategy_chain.h"

namespace weft {

/// A strategy for a layer, or for embedding and head, with its numbers on each stage.
struct GalvatronRow {
  int id = 0;                     // index into the file's list of strategies
  std::vector<double> time_s;     // forward and backward of a micro-batch, without gradient sync
  std::vector<double> sync_s;     // what gradient sync adds, once a step
  std::vector<double> memory_mb;  // with the micro-batches that 1F1B keeps in flight
};

/// What a number of micro-batches and a number of stages offer.
struct GalvatronTable {
  int chunks = 1;  // micro-batches
  int stages = 1;
  std::vector<GalvatronRow> layer;
  std::vector<GalvatronRow> embed;
};

/// Problem `galv-case/1`: all layers are alike.
struct GalvatronCase {
  int layers = 0;
  double usable_mb = 0;     // on each device
  std::vector<int> layout;  // of each layer strategy: equal numbers have equal tp, sp, cp and dp
  std::vector<GalvatronTable> tables;
};

/// What surrounds the layers in one question to Galvatron's dynamic program.
struct GalvatronQuery {
  double other_memory_mb = 0;
  double other_time_s = 0;
};

/// An instance of problem `galv-dp/1`.
struct GalvatronChain {
  std::string id;
  double most_memory_mb = 0;
  StrategyChain chain;
  std::vector<GalvatronQuery> queries;
};

/// Readers of the two formats. What is wrong in a file is Error{input} that says where.
[[nodiscard]] GalvatronCase read_galvatron_case(const nlohmann::json& file);
[[nodiscard]] std::vector<GalvatronChain> read_galvatron_chains(const nlohmann::json& file);

}  // namespace weft
