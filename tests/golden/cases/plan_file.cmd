# The plan's JSON: splits, ZeRO, recomputation, a pipeline, unequal micro-batches.
weft plan gpt-tiny --cluster 1x8xA100-80GB --batch 14 --recipe dp=2,tp=2,pp=2,zero=1,recompute=block,micro-batches=4 --clip 1 --seed 3 -o plan.json -q
cat plan.json
weft plan mlp-mnist --cluster 1x2xA100-80GB --batch 32 --recipe dp=2,zero=3 --optimizer sgd -o mlp.json -q
cat mlp.json
