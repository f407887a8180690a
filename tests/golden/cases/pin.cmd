# Blocks that are pinned in a plan that is otherwise searched; names that do not exist; pins that no plan can have.
weft plan gpt-tiny --cluster 1x4xA100-80GB --batch 16 --pin pin.json -o plan.json
cat plan.json
weft plan gpt-tiny --cluster 1x4xA100-80GB --batch 16 --pin plan.json
weft plan gpt-tiny --cluster 1x4xA100-80GB --batch 16 --pin pin.json --memory 512KiB
weft plan gpt-tiny --cluster 1x4xA100-80GB --batch 16 --pin pin_wrong.json
weft plan gpt-tiny --cluster 1x4xA100-80GB --batch 16 --pin pin_five.json
weft plan gpt-tiny --cluster 1x4xA100-80GB --batch 16 --pin pin.json --fix tp=4
weft plan gpt-tiny --cluster 1x4xA100-80GB --batch 16 --pin pin.json --recipe dp=4
