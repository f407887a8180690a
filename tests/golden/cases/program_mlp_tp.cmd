weft plan mlp:inputs=8,hidden=16,layers=1,outputs=4 --cluster 1x2xA100-80GB --batch 4 --dtype f32 --recipe tp=2 -o plan.json -q
weft simulate --program plan.json
