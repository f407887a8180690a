weft plan gpt2-small --cluster 1x4xA100-80GB --batch 32 --recipe dp=2,pp=2,micro-batches=4 -o plan.json -q
weft simulate plan.json
weft simulate plan.json --json
