weft plan mlp:inputs=8,hidden=16,layers=1,outputs=4 --cluster 1x2xA100-80GB --batch 4 --dtype f32 --optimizer sgd --recipe dp=2,zero=3 -o plan.json -q
weft simulate --program plan.json
