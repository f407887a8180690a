#!/usr/bin/env bash
# Coverage-guided fuzzing of every reader of tests/fuzz: tools/fuzz.sh [SECONDS [TARGET …]]
# Each target runs for SECONDS (600 if not given), two at a time. Inputs that reach new code are added to
# tests/fuzz/corpus/TARGET, as few as reach it. An input that crashes, hangs (10 s) or takes 2 GiB stays in
# build/fuzz/finds; the script then fails. Mend the reader and put the input into the corpus.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do
    targets+=("$(basename "$source" _fuzz.cpp)")
  done
fi

runtime='/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a'
if ! command -v clang++ >/dev/null || ! compgen -G "$runtime" >/dev/null; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends clang libclang-rt-14-dev
fi

cmake --preset fuzz
cmake --build --preset fuzz --parallel "$(nproc)"
mkdir -p build/fuzz/finds build/fuzz/log

run_target() {
  local target=$1 fresh finds log
  fresh=build/fuzz/fresh/$target finds=build/fuzz/finds/$target- log=build/fuzz/log/$target
  rm -rf "$fresh" && mkdir -p "$fresh"
  local limits=(-rss_limit_mb=2048 -timeout=10 -max_len=20000)
  if build/fuzz/bin/"${target}_fuzz" -max_total_time="$seconds" "${limits[@]}" -artifact_prefix="$finds" \
       -print_final_stats=1 "$fresh" tests/fuzz/corpus/"$target" >"$log" 2>&1; then
    build/fuzz/bin/"${target}_fuzz" -merge=1 "${limits[@]}" tests/fuzz/corpus/"$target" "$fresh" >>"$log" 2>&1
    # Of the lines "#N DONE cov: C ft: F corp: … exec/s: E rss: R" the last.
    echo "$target: clean for $seconds s; $(grep -h ' DONE ' "$log" | tail -1 | tr -s ' \t' ' ')"
  else
    echo "$target: FAILED, see $log and $finds*"
    return 1
  fi
}
export -f run_target
export seconds
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'run_target {}'
