# A layer profile: early layers compute, late ones have the parameters.
weft plan toy_profile.json --cluster 1x4xV100-16GB --batch 64
weft plan toy_profile.json --cluster 2x2xV100-16GB --batch 64 --memory 1800MB --json
# Devices that were not measured.
weft plan toy_profile.json --cluster 1x1xA100-40GB+1x1xT4 --batch 30
# Too little memory, and what a profile cannot do.
weft plan toy_profile.json --cluster 1x2xV100-16GB --batch 64 --memory 1GiB
weft plan toy_profile.json --cluster 1x2xV100-16GB --batch 64 -o plan.json
weft plan toy_profile.json --cluster 1x2xV100-16GB
weft plan toy_profile.json --cluster 1x2xV100-16GB --batch 64 --optimizer sgd
weft plan toy_profile.json --cluster 1x2xV100-16GB --batch 64 --recipe dp=2
weft compare toy_profile.json --cluster 1x2xV100-16GB --batch 64
weft train toy_profile.json --data synthetic --steps 1 --batch 4
weft simulate toy_profile.json
weft verify toy_profile.json
