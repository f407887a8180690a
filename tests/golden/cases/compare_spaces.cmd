weft compare gpt:layers=4,hidden=256,heads=4,vocab=1024,seq=128 --cluster 4xT4 --batch 16 --memory 64MiB --spaces
