# Recipes that do not fit are shown with what they would need.
weft compare gpt2-small --cluster 1x2xA100-40GB --batch 8 --memory 1500MiB
