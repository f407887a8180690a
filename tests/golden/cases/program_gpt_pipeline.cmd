weft plan gpt:layers=1,hidden=16,heads=2,vocab=32,seq=8 --cluster 1x2xA100-80GB --batch 4 --recipe pp=2,micro-batches=2 -o plan.json -q
weft simulate --program plan.json
