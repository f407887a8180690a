"""Reads and writes safetensors files for tests, without a library."""
import json
import os

import numpy as np
import torch

DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "U8": np.uint8}


def read_file(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        body = file.read()
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        if info["dtype"] == "BF16":
            flat = torch.from_numpy(np.frombuffer(body[begin:end], dtype=np.int16).copy()).view(torch.bfloat16)
        else:
            flat = torch.from_numpy(np.frombuffer(body[begin:end], dtype=DTYPES[info["dtype"]]).copy())
        tensors[name] = flat.reshape(info["shape"])
    return tensors


def write_file(path, tensors):
    """Of torch tensors by name."""
    names = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
    header, body = {}, b""
    for name, tensor in tensors.items():
        numbers = tensor.contiguous()
        numbers = numbers.view(torch.int16) if tensor.dtype == torch.bfloat16 else numbers
        content = numbers.numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + body)


def read_folder(folder):
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            tensors.update(read_file(os.path.join(folder, name)))
    return tensors


def read_ranks(folder):
    """What the ranks of a run wrote anywhere below a folder, by the parameters' own names; whole tensors only."""
    tensors = {}
    for root, _, files in os.walk(folder):
        for file in files:
            if file.startswith("rank-"):
                # The rest of a name is the box.
                tensors.update({n.split("@")[0]: t for n, t in read_file(os.path.join(root, file)).items()})
    return tensors
