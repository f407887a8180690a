# One host, plenty of memory; then a budget that makes the choice matter.
weft plan gpt2-small --cluster 1x4xA100-80GB --batch 32
weft plan gpt2-small --cluster 1x4xA100-80GB --batch 32 --memory 3GiB
weft plan gpt2-small --cluster 1x4xA100-80GB --batch 32 --recipe tp=2,pp=2,micro-batches=4
