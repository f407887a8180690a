weft solve selection.json -q
weft solve two_hosts.json
weft solve nowhere.json
weft solve selection.json --time-limit 0
