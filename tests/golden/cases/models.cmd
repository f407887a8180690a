weft models
weft models --json
