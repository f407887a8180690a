#!/usr/bin/env bash
# Installs what is missing, builds weft, then plans and trains a small GPT on text, on two devices of this machine.
#
# The text is this repository's own documentation, byte by byte. With this budget one device and data parallelism
# do not fit, so the planner has to find something else; try MEMORY=8GiB or MEMORY=60MiB for another choice,
# MEMORY=30MiB for a refusal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MODEL=${MODEL:-gpt:layers=6,hidden=256,heads=8,vocab=256,seq=128}
CLUSTER=${CLUSTER:-local:2}
BATCH=${BATCH:-16}
MEMORY=${MEMORY:-72MiB}
STEPS=${STEPS:-100}
LEARNING_RATE=${LEARNING_RATE:-1e-3}
OUTPUT=${OUTPUT:-build/demo}

tools/install_packages.sh
cmake --preset release
cmake --build --preset release --parallel "$(nproc)" --target weft weft-worker
weft=build/release/bin/weft

mkdir -p "$OUTPUT"
find . -path ./build -prune -o -name '*.md' -print | LC_ALL=C sort | xargs cat > "$OUTPUT/text.txt"

say() { printf '\n== %s\n\n' "$*"; }

say "What fits in $MEMORY a device: $MODEL, batch $BATCH, on $CLUSTER"
"$weft" compare "$MODEL" --cluster "$CLUSTER" --batch "$BATCH" --memory "$MEMORY"

say "The best of them, saved as $OUTPUT/plan.json: $STEPS steps on $(wc -c < "$OUTPUT/text.txt") bytes of text"
"$weft" plan "$MODEL" --cluster "$CLUSTER" --batch "$BATCH" --memory "$MEMORY" -o "$OUTPUT/plan.json" --quiet
"$weft" train --plan "$OUTPUT/plan.json" --data "text:$OUTPUT/text.txt" --steps "$STEPS" --lr "$LEARNING_RATE" \
  --schedule cosine --warmup 10 --log "$OUTPUT/metrics.jsonl" --trace "$OUTPUT/measured.json"

say "The same step as the simulator sees it"
"$weft" simulate "$OUTPUT/plan.json" --trace "$OUTPUT/predicted.json" --quiet
echo "predicted: $OUTPUT/predicted.json, measured: $OUTPUT/measured.json (open both in Perfetto)"
