weft
weft plam gpt2-small
weft plan
weft plan gpt2-small --cluster 1x2xA100-80GB
weft plan gpt2-smal --cluster 1x2xA100-80GB --batch 4
weft plan gpt:layer=2 --cluster 1x2xA100-80GB --batch 4
weft plan gpt:layers=two --cluster 1x2xA100-80GB --batch 4
weft plan gpt:hidden=30,heads=4 --cluster 1x2xA100-80GB --batch 4
weft plan mlp:width=4 --cluster 1x2xA100-80GB --batch 4
weft plan gpt2-small --cluster 1x2xA9 --batch 4
weft plan gpt2-small --cluster 0x2xA100-80GB --batch 4
weft plan gpt2-small --cluster nowhere.json --batch 4
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --memory much
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --dtype f17
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --optimizer lamb
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --recipe dp=3
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --recipe np=2
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --recipe dp=two
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 1 --recipe dp=2
weft plan gpt2-small --cluster 1x8xA100-80GB --batch 8 --recipe tp=8
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --recipe pp=2,schedule=zigzag
weft plan gpt2-small --cluster 1x2xA100-80GB --batch 4 --recipe pp=2,micro-batches=8
weft simulate nowhere.json
weft train gpt-tiny --steps 1 --batch 2
weft train gpt-tiny --data synthetic --batch 2
weft train gpt-tiny --data synthetic --batch 2 --steps 1 --schedule zigzag
weft train --data synthetic --steps 1
