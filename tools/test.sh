#!/usr/bin/env bash
# Installs what is missing, builds weft and runs all tests: unit and property tests with address and undefined-behaviour
# sanitizers, everything else in a release build. Fails if any test fails.
#
# WEFT_REFERENCE_DATA: the folder with reference data. Tests that need it are skipped without it; the last lines say how
# many were.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${WEFT_REFERENCE_DATA:-}" ] && [ -d ../shared/data ]; then
  WEFT_REFERENCE_DATA=$(cd ../shared/data && pwd)
fi
export WEFT_REFERENCE_DATA=${WEFT_REFERENCE_DATA:-}
jobs=$(nproc)
failed=0
summary=()

# ctest's closing lines, and how many tests were skipped: whole ones, and cases inside a GoogleTest binary.
summarise() {  # <title> <ctest's output> <log with the tests' own output>
  local whole cases
  whole=$(grep -c -F '***Skipped' "$2" || true)
  cases=$(grep -c -E '^\[  SKIPPED \] .* \([0-9]+ ms\)$' "$3" || true)
  summary+=("$1: skipped $whole tests and $cases cases of other tests")
  summary+=("$(grep -E 'tests passed|Total Test time' "$2" || echo "$1: ctest did not finish")")
}

run_tests() {  # <preset> <further options of ctest...>
  local folder=build/$1 output=build/$1/ctest.log
  echo "== tests: $*"
  ctest --test-dir "$folder" --output-on-failure --no-tests=error --parallel "$jobs" "${@:2}" | tee "$output" || failed=1
  summarise "$1" "$output" "$folder/Testing/Temporary/LastTest.log"
}

tools/install_packages.sh

cmake --preset release
cmake --build --preset release --parallel "$jobs" --target system_programs
run_tests release --label-exclude 'bench|unit|property'

cmake --preset sanitize
cmake --build --preset sanitize --parallel "$jobs" --target test_programs
run_tests sanitize --label-regex 'unit|property'

echo
echo "reference data: ${WEFT_REFERENCE_DATA:-none (set WEFT_REFERENCE_DATA)}"
printf '%s\n' "${summary[@]}"
exit "$failed"
