// Search problems of Galvatron; small ones are also solved, and their bound must hold.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/solver/galvatron.h"
#include "weft/solver/galvatron_file.h"

namespace weft::fuzz {
namespace {

constexpr int kFewLayers = 6;
constexpr std::size_t kFewRows = 64;

bool is_small(const GalvatronCase& given) {
  bool small = given.layers <= kFewLayers && given.tables.size() <= kFewRows;
  for (const GalvatronTable& table : given.tables) {
    small = small && table.layer.size() * table.embed.size() <= kFewRows && table.chunks <= 64;
  }
  return small;
}

}  // namespace

void galvatron(std::string_view bytes) {
  const nlohmann::json file = parse_json(bytes, "problem.json");
  if (file.is_object() && file.value("format", nlohmann::json()) == "galv-dp/1") {
    for (const GalvatronChain& instance : read_galvatron_chains(file)) {
      if (instance.chain.layers > kFewLayers || instance.queries.size() > kFewRows) {
        return;
      }
    }
    static_cast<void>(solve_galvatron_dp(file));
  } else if (is_small(read_galvatron_case(file))) {
    const std::optional<Solved> solved = solve_galvatron_case(file);
    WEFT_CHECK(solved && solved->bound <= solved->cost);
  }
}

}  // namespace weft::fuzz
