// The two formats differ in what is a list by stage: a layer takes the same time on every stage and
// is written once, embedding and head are not. Both become rows with one entry for each stage.
// Sizes are limited so that a file of a few bytes cannot ask for hours.

#include "weft/solver/galvatron_file.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr int kMostLayers = 1024;
constexpr int kMostChunks = 4096;
constexpr int kMostStages = 256;
constexpr double kMostAmount = 1e12;  // MB or seconds: sums and products stay finite

void require_format(const Json& file, const std::string& format) {
  require(file.is_object(), "{}: the file must hold one object", format);
  const std::string found = json_string(file, "format", format);
  require(found == format, "{}: \"format\" is \"{}\"; give a file of format {}", format, found,
          format);
}

const Json& list(const Json& object, const char* key, const std::string& where) {
  const Json& member = json_member(object, key, where);
  require(member.is_array() && !member.empty(), "{}: \"{}\" must be a list with entries", where,
          key);
  return member;
}

int whole_number(const Json& object, const char* key, const std::string& where, int most) {
  const std::int64_t value = json_int(object, key, where);
  require(value >= 1 && value <= most, "{}: \"{}\" must lie between 1 and {}, not {}", where, key,
          most, value);
  return static_cast<int>(value);
}

double amount(const Json& value, const char* key, const std::string& where) {
  const double number = value.is_number() ? value.get<double>() : -1;
  require(number >= 0 && number <= kMostAmount,
          "{}: \"{}\" must hold numbers from 0 to {:g}, not {}", where, key, kMostAmount,
          value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40));
  return number;
}

double amount_of(const Json& object, const char* key, const std::string& where) {
  return amount(json_member(object, key, where), key, where);
}

std::vector<double> amounts(const Json& object, const char* key, const std::string& where,
                            std::size_t size) {
  const Json& values = list(object, key, where);
  require(values.size() == size, "{}: \"{}\" has {} entries; {} are needed", where, key,
          values.size(), size);
  std::vector<double> result;
  for (const Json& value : values) {
    result.push_back(amount(value, key, where));
  }
  return result;
}

// A number for all stages, or a list with one for each.
std::vector<double> by_stage(const Json& object, const char* key, const std::string& where,
                             int stages) {
  const Json& member = json_member(object, key, where);
  const auto size = static_cast<std::size_t>(stages);
  return member.is_array() ? amounts(object, key, where, size)
                           : std::vector<double>(size, amount(member, key, where));
}

std::vector<GalvatronRow> read_rows(const Json& table, const char* key, const std::string& where,
                                    int stages, std::size_t strategies) {
  std::vector<GalvatronRow> rows;
  for (const Json& json : list(table, key, where)) {
    const std::string place = fmt::format("{}: {}[{}]", where, key, rows.size());
    const std::int64_t id = json_int(json, "id", place);
    require(id >= 0 && id < static_cast<std::int64_t>(strategies),
            "{}: \"id\" is {}, but the file lists {} strategies for it", place, id, strategies);
    GalvatronRow row{.id = static_cast<int>(id),
                     .time_s = by_stage(json, "t_nosync_s", place, stages),
                     .sync_s = by_stage(json, "t_sync_s", place, stages),
                     .memory_mb = by_stage(json, "mem_MB", place, stages)};
    for (std::size_t stage = 0; stage < row.sync_s.size(); ++stage) {
      row.sync_s[stage] -= row.time_s[stage];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Numbers the layouts in the order in which strategies first use them.
std::vector<int> read_layouts(const Json& strategies) {
  std::map<std::array<std::int64_t, 4>, int> known;
  std::vector<int> layouts;
  for (const Json& json : strategies) {
    const std::string where = fmt::format("galv-case/1: strategies[{}]", layouts.size());
    const std::array<std::int64_t, 4> degrees = {
        json_int(json, "tp", where), json_int(json, "sp", where), json_int(json, "cp", where),
        json_int(json, "dp", where)};
    layouts.push_back(known.emplace(degrees, static_cast<int>(known.size())).first->second);
  }
  return layouts;
}

GalvatronChain read_chain(const Json& json, const std::string& where) {
  GalvatronChain result;
  result.id = json_string(json, "id", where);
  result.most_memory_mb = amount_of(json, "max_mem_MB", where);
  result.chain.layers = whole_number(json, "L", where, kMostLayers);
  const auto size = static_cast<std::size_t>(whole_number(json, "S", where, kMostLayers));
  result.chain.memory = amounts(json, "mem_MB", where, size);
  result.chain.time = amounts(json, "intra_s", where, size);
  const Json& inter = list(json, "inter_s", where);
  require(inter.size() == size, "{}: \"inter_s\" has {} rows; {} are needed", where, inter.size(),
          size);
  for (const Json& row : inter) {
    require(row.is_array() && row.size() == size, "{}: a row of \"inter_s\" must have {} entries",
            where, size);
    for (const Json& value : row) {
      result.chain.change.push_back(amount(value, "inter_s", where));
    }
  }
  for (const Json& query : list(json, "queries", where)) {
    const std::string place = fmt::format("{}: queries[{}]", where, result.queries.size());
    result.queries.push_back({.other_memory_mb = amount_of(query, "other_mem_MB", place),
                              .other_time_s = amount_of(query, "other_time_s", place)});
  }
  return result;
}

}  // namespace

GalvatronCase read_galvatron_case(const Json& file) {
  const std::string where = "galv-case/1";
  require_format(file, where);
  GalvatronCase result;
  result.usable_mb =
      amount_of(json_member(file, "cluster", where), "usable_MB", where + ": cluster");
  result.layers =
      whole_number(json_member(file, "model", where), "layers", where + ": model", kMostLayers);
  result.layout = read_layouts(list(file, "strategies", where));
  const std::size_t embeds = list(file, "embed_strategies", where).size();
  for (const Json& json : list(file, "tables", where)) {
    const std::string place = fmt::format("{}: tables[{}]", where, result.tables.size());
    GalvatronTable table{.chunks = whole_number(json, "chunks", place, kMostChunks),
                         .stages = whole_number(json, "pp", place, kMostStages),
                         .layer = {},
                         .embed = {}};
    table.layer = read_rows(json, "layer", place, table.stages, result.layout.size());
    table.embed = read_rows(json, "embed", place, table.stages, embeds);
    result.tables.push_back(std::move(table));
  }
  return result;
}

std::vector<GalvatronChain> read_galvatron_chains(const Json& file) {
  const std::string where = "galv-dp/1";
  require_format(file, where);
  std::vector<GalvatronChain> result;
  for (const Json& json : list(file, "instances", where)) {
    result.push_back(read_chain(json, fmt::format("{}: instances[{}]", where, result.size())));
  }
  return result;
}

}  // namespace weft
