"""Checks checkpoints without any code of weft: reads the files and computes the checksums again."""
import ctypes
import ctypes.util
import glob
import json
import os
import struct

MASK = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotl(x, r):
    return ((x << r) | (x >> (64 - r))) & MASK


def mix(lane, word):
    return rotl((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64_slowly(data, seed):
    left, at = len(data), 0
    value = (seed + P5) & MASK
    if left >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        whole = left // 32
        words = struct.unpack_from(f"<{4 * whole}Q", data)
        for i in range(0, 4 * whole, 4):
            lanes = [mix(lane, word) for lane, word in zip(lanes, words[i:i + 4])]
        value = sum(rotl(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            value = ((value ^ mix(0, lane)) * P1 + P4) & MASK
        at = 32 * whole
    value = (value + left) & MASK
    for at in range(at, at + (left - at) // 8 * 8, 8):
        value = (rotl(value ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
    at = left - left % 8
    if left - at >= 4:
        value = (rotl(value ^ (struct.unpack_from("<I", data, at)[0] * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        value = rotl(value ^ (byte * P5 & MASK), 11) * P1 & MASK
    value = (value ^ (value >> 33)) * P2 & MASK
    value = (value ^ (value >> 29)) * P3 & MASK
    return value ^ (value >> 32)


def load_library():
    name = ctypes.util.find_library("xxhash")
    if not name:
        return None
    library = ctypes.CDLL(name)
    library.XXH64.restype = ctypes.c_uint64
    library.XXH64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return library


LIBRARY = load_library()


def xxh64(data, seed=0):
    if LIBRARY:
        return LIBRARY.XXH64(data, len(data), seed)
    return xxh64_slowly(data, seed)


def compact(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def damage_in_shards(path):
    """Empty, or what is wrong with a file of shards."""
    with open(path, "rb") as file:
        body = file.read()
    length = struct.unpack_from("<Q", body)[0]
    header = json.loads(body[8:8 + length])
    notes = header.pop("__metadata__", {})
    data = body[8 + length:]
    end = max([tensor["data_offsets"][1] for tensor in header.values()], default=0)
    if end != len(data):
        return f"{path}: holds {len(data)} bytes of data, its header says {end}"
    for key, tensor in header.items():
        note = json.loads(notes[key])
        said = " ".join([key, tensor["dtype"], compact(tensor["shape"]),
                         compact([note["name"], note["whole"], note["offset"]])])
        begin, end = tensor["data_offsets"]
        if f"{xxh64(data[begin:end], xxh64(said.encode())):016x}" != note["xxh64"]:
            return f"{path}: {key} is damaged"
    return ""


def damage_in(checkpoint):
    """Empty, or what is wrong with a checkpoint."""
    try:
        with open(os.path.join(checkpoint, "checkpoint.json")) as file:
            info = json.load(file)
        said = info.pop("checksum")
        if said != f"{xxh64(compact(info).encode()):016x}":
            return f"{checkpoint}/checkpoint.json is damaged"
        shards = sorted(glob.glob(os.path.join(checkpoint, "rank-*.safetensors")))
        if len(shards) != info["ranks"]:
            return f"{checkpoint}: {len(shards)} shards of {info['ranks']}"
        for path in shards:
            wrong = damage_in_shards(path)
            if wrong:
                return wrong
    except (OSError, ValueError, KeyError, struct.error) as error:
        return f"{checkpoint}: {error!r}"
    return ""


def checkpoints_in(folder):
    return sorted(glob.glob(os.path.join(folder, "step-*")))
