weft plan gpt-tiny --cluster 1x2xA100-80GB --batch 8 --recipe pp=2,micro-batches=4,recompute=block --json
