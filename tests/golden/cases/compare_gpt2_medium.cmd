weft compare gpt2-medium --cluster 2x4xA100-40GB --batch 32
