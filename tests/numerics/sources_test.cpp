// What the tests of this folder share. The build takes *_test.cpp only, so it comes in here.
#include "weft/kernels/torch_headers.h"

#include "tests/numerics/elementwise_cases.cpp"  // NOLINT(bugprone-suspicious-include)
#include "tests/numerics/harness.cpp"            // NOLINT(bugprone-suspicious-include)
#include "tests/numerics/op_reference.cpp"       // NOLINT(bugprone-suspicious-include)
