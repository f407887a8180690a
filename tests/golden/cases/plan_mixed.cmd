# Unlike devices; one type has no bf16 units of its own.
weft plan gpt2-small --cluster 1x4xA100-80GB+1x4xV100-16GB --batch 64
