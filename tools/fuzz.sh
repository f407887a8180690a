#!/usr/bin/env bash
# Coverage-guided fuzzing of every reader of tests/fuzz: tools/fuzz.sh [SECONDS [TARGET …]]
# Each target runs for SECONDS (600 if not given), two at a time. Of the inputs that were found, the few that reach
# code which nothing else reaches stay in tests/fuzz/corpus/TARGET. An input that crashes, hangs (10 s) or takes 2 GiB
# stays in build/fuzz/finds; the script then fails. Mend the reader and put the input into the corpus, under a name.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do
    targets+=("$(basename "$source" _fuzz.cpp)")
  done
fi

tools/install_packages.sh
cmake --preset fuzz
cmake --build --preset fuzz --parallel "$(nproc)"
mkdir -p build/fuzz/finds build/fuzz/log

limits=(-rss_limit_mb=2048 -timeout=10 -max_len=20000)

# Files with a name stay in the corpus. Of those that a run has found (their name is a hash) it keeps what reaches an
# edge of the code that no file before it does; how often an edge is passed would keep ten times as many.
shrink_corpus() {
  local target=$1 corpus=tests/fuzz/corpus/$1 kept=build/fuzz/kept/$1 found='.*/[0-9a-f]{40}'
  rm -rf "$kept" && mkdir -p "$kept"
  find "$corpus" -regextype posix-extended -type f ! -regex "$found" -exec cp -t "$kept" {} +
  build/fuzz/bin/"${target}_fuzz" -merge=1 -use_counters=0 "${limits[@]}" "$kept" "$corpus" build/fuzz/fresh/"$target" \
    >build/fuzz/log/"$target.merge" 2>&1 || return 1
  find "$corpus" -regextype posix-extended -type f -regex "$found" -delete
  find "$kept" -regextype posix-extended -type f -regex "$found" -exec cp -t "$corpus" {} +
}

# From libFuzzer's log: "#N DONE cov: C ft: F …" and "stat::number_of_executed_units: N".
figures() {
  local target=$1 log=build/fuzz/log/$1
  awk '$2 == "DONE" { edges = $4 } $1 == "stat::number_of_executed_units:" { runs = $2 }
       END { printf "%d inputs tried, %d edges covered", runs, edges }' "$log"
  find tests/fuzz/corpus/"$target" -type f -printf '%s\n' |
    awk '{ bytes += $1 } END { printf ", corpus of %d files and %d KB\n", NR, bytes / 1000 }'
}

run_target() {
  local target=$1 fresh=build/fuzz/fresh/$1 finds=build/fuzz/finds/$1- log=build/fuzz/log/$1
  rm -rf "$fresh" && mkdir -p "$fresh"
  if ! build/fuzz/bin/"${target}_fuzz" -max_total_time="$seconds" "${limits[@]}" -artifact_prefix="$finds" \
         -print_final_stats=1 "$fresh" tests/fuzz/corpus/"$target" >"$log" 2>&1; then
    echo "$target: FAILED, see $log and $finds*"
    return 1
  fi
  if ! shrink_corpus "$target"; then
    echo "$target: clean for $seconds s, but its corpus could not be made small: see $log.merge"
    return 1
  fi
  echo "$target: clean for $seconds s; $(figures "$target")"
}

failed=0
running=0
for target in "${targets[@]}"; do
  run_target "$target" &
  running=$((running + 1))
  if [ "$running" -ge 2 ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
done
while [ "$running" -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit "$failed"
