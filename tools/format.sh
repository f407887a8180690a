#!/usr/bin/env bash
# Formats all C++ sources in place. Files that are right already are left alone, so that nothing is built again for them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
find . -path ./build -prune -o \( -name '*.h' -o -name '*.cpp' \) -print | while read -r file; do
  clang-format "$file" | cmp --silent - "$file" || clang-format -i "$file"
done
