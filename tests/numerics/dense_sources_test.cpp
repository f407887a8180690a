// As sources_test.cpp.
#include "tests/numerics/dense_cases.cpp"  // NOLINT(bugprone-suspicious-include)
