#include "weft/report/table.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Table, PadsToTheWidestCellAndAlignsNumbersRight) {
  const Table table{.header = {"name", "n"}, .rows = {{"a", "10"}, {"longer", "7"}}, .right = {1}};
  EXPECT_EQ(format_table(table), "name     n\na       10\nlonger   7\n");
}

TEST(Table, CountsCharactersNotBytes) {
  const Table table{.header = {"x", "y"}, .rows = {{"…", "1"}, {"ab", "2"}}};
  EXPECT_EQ(format_table(table), "x   y\n…   1\nab  2\n");
}

}  // namespace
}  // namespace weft
