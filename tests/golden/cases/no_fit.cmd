weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --memory 1GiB
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --memory 1GiB --recipe dp=2
weft plan gpt3-13b --cluster 1x4xV100-16GB --batch 8 --dtype f32
