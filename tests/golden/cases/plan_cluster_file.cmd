weft plan gpt2-small --cluster two_hosts.json --batch 32
weft compare mlp-mnist --cluster two_hosts.json --batch 256
