"""The model families as PyTorch, written from their papers and Hugging Face's names: what tests compare with.

Every function takes `w`, the stored tensors by name, the inputs of a batch by name, and the settings of the model. It
returns the loss. Images come as [batch, height, width, channels].
"""
import math

import torch
import torch.nn.functional as F

IGNORED = -100


def cross_entropy(logits, labels):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=IGNORED)


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def layer_norm(w, name, x, eps):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)


def rms_norm(w, name, x, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w[name + ".weight"]


def act(name):
    return {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu, "silu": F.silu}[name]


def heads(x, count):
    return x.view(*x.shape[:-1], count, -1).transpose(-2, -3)  # [batch, heads, tokens, features]


def attention(q, k, v, mask=None, scale=None):
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if mask is None else scores + mask
    out = torch.softmax(scores, -1) @ v
    return out.transpose(-2, -3).flatten(-2)


def causal_mask(s, dtype, window=0):
    i, j = torch.arange(s)[:, None], torch.arange(s)[None, :]
    seen = (j <= i) & ((window == 0) | (j > i - window))
    return torch.zeros(s, s, dtype=dtype).masked_fill(~seen, float("-inf"))


def rotary(x, base, dims):
    """x: [batch, heads, tokens, features]; halves turn against each other."""
    half = dims // 2
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] / base ** (
        torch.arange(half, dtype=torch.float64)[None, :] / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b, rest = x[..., :half], x[..., half:dims], x[..., dims:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def gpt(w, inputs, m):
    x = w["transformer.wte.weight"][inputs["tokens"]] + w["transformer.wpe.weight"][:m["seq"]]
    mask = causal_mask(m["seq"], x.dtype)
    extra = 0
    for i in range(m["layers"]):
        p = f"transformer.h.{i}."
        y = layer_norm(w, p + "ln_1", x, 1e-5)
        y = y @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"]
        q, k, v = (heads(t, m["heads"]) for t in y.chunk(3, -1))
        y = attention(q, k, v, mask)
        x = x + y @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
        y = layer_norm(w, p + "ln_2", x, 1e-5)
        if m.get("experts") and (i + 1) % m["sparse_step"] == 0:
            y, balance = moe(w, p + "mlp.gate", p + "mlp.experts.", y, m, gate=None, up="up", down="down",
                             function=act("gelu_tanh"))
            extra, x = extra + balance, x + y
        else:
            y = F.gelu(y @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"], approximate="tanh")
            x = x + y @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
    x = layer_norm(w, "transformer.ln_f", x, 1e-5)
    head = w.get("lm_head.weight", w["transformer.wte.weight"])
    return cross_entropy(x @ head.T, inputs["labels"]) + extra


def moe(w, router, experts, x, m, gate, up, down, function):
    """Top-k routing; an expert takes tokens in order (token, choice) until its slots are full."""
    batch, s, h = x.shape
    count, k = m["experts"], m["active"]
    probs = torch.softmax(x.reshape(-1, h) @ w[router + ".weight"].T, -1)
    top, chosen = probs.topk(k, -1)
    gates = top / top.sum(-1, keepdim=True) if m.get("normalise", 1) else top
    capacity = s if not m.get("capacity") else min(s, math.ceil(m["capacity"] * k * s / count))
    used, out, flat = [0] * count, [], x.reshape(-1, h)
    for t in range(batch * s):
        y = torch.zeros(h, dtype=x.dtype)
        for c in range(k):
            e = chosen[t, c].item()
            used[e] += 1
            if used[e] <= capacity * batch:
                p = f"{experts}{e}."
                inner = F.linear(flat[t], w[p + up + ".weight"])
                inner = function(inner) if gate is None else function(F.linear(flat[t], w[p + gate + ".weight"])) * inner
                y = y + gates[t, c] * F.linear(inner, w[p + down + ".weight"])
        out.append(y)
    share = torch.tensor(used, dtype=x.dtype) / (batch * s * k)
    balance = m.get("balance", 0) * count * (share * probs.mean(0)).sum()
    return torch.stack(out).view(batch, s, h), balance


def llama(w, inputs, m):
    eps, function = m.get("eps", 1e-5), act(m.get("act", "silu"))
    x = w["model.embed_tokens.weight"][inputs["tokens"]]
    mask = causal_mask(m["seq"], x.dtype, m.get("window", 0))
    group = m["heads"] // m["kv_heads"]
    extra = 0
    for i in range(m["layers"]):
        p = f"model.layers.{i}."
        y = rms_norm(w, p + "input_layernorm", x, eps)
        d = m["hidden"] // m["heads"]
        if m.get("layout") == "phi3":
            q, k, v = linear(w, p + "self_attn.qkv_proj", y).split([m["heads"] * d, m["kv_heads"] * d, m["kv_heads"] * d], -1)
        else:
            q, k, v = (linear(w, p + f"self_attn.{n}_proj", y) for n in "qkv")
        q, k, v = heads(q, m["heads"]), heads(k, m["kv_heads"]), heads(v, m["kv_heads"])
        if m.get("qk_norm"):
            q, k = rms_norm(w, p + "self_attn.q_norm", q, eps), rms_norm(w, p + "self_attn.k_norm", k, eps)
        q, k = (rotary(t, m.get("rope", 10000), m.get("rotary", d)) for t in (q, k))
        y = attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), mask)
        x = x + linear(w, p + "self_attn.o_proj", y)
        y = rms_norm(w, p + "post_attention_layernorm", x, eps)
        if m.get("experts") and i >= m.get("dense_layers", 0):
            if m["layout"] == "mixtral":
                z, balance = moe(w, p + "block_sparse_moe.gate", p + "block_sparse_moe.experts.", y, m, "w1", "w3", "w2", function)
            else:
                z, balance = moe(w, p + "mlp.gate", p + "mlp.experts.", y, m, "gate_proj", "up_proj", "down_proj", function)
            extra = extra + balance
            if m.get("shared_ffn"):
                s = p + ("mlp.shared_expert" if m["layout"] == "qwen2_moe" else "mlp.shared_experts")
                shared = linear(w, s + ".down_proj", function(linear(w, s + ".gate_proj", y)) * linear(w, s + ".up_proj", y))
                if m.get("shared_gate"):
                    shared = torch.sigmoid(linear(w, p + "mlp.shared_expert_gate", y)) * shared
                z = z + shared
            x = x + z
        elif m.get("layout") == "phi3":
            gate, up = linear(w, p + "mlp.gate_up_proj", y).chunk(2, -1)
            x = x + linear(w, p + "mlp.down_proj", function(gate) * up)
        else:
            x = x + linear(w, p + "mlp.down_proj", function(linear(w, p + "mlp.gate_proj", y)) * linear(w, p + "mlp.up_proj", y))
    x = rms_norm(w, "model.norm", x, eps)
    return cross_entropy(x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T, inputs["labels"]) + extra


def neox(w, inputs, m):
    x = w["gpt_neox.embed_in.weight"][inputs["tokens"]]
    mask = causal_mask(m["seq"], x.dtype)
    batch, s, h = x.shape
    for i in range(m["layers"]):
        p = f"gpt_neox.layers.{i}."
        y = linear(w, p + "attention.query_key_value", layer_norm(w, p + "input_layernorm", x, 1e-5))
        q, k, v = y.view(batch, s, m["heads"], 3, -1).permute(3, 0, 2, 1, 4)
        q, k = rotary(q, 10000, m["rotary"]), rotary(k, 10000, m["rotary"])
        attended = linear(w, p + "attention.dense", attention(q, k, v, mask))
        base = x if m.get("parallel", 1) else x + attended
        y = linear(w, p + "mlp.dense_h_to_4h", layer_norm(w, p + "post_attention_layernorm", base, 1e-5))
        x = x + attended + linear(w, p + "mlp.dense_4h_to_h", F.gelu(y))
    x = layer_norm(w, "gpt_neox.final_layer_norm", x, 1e-5)
    return cross_entropy(x @ w["embed_out.weight"].T, inputs["labels"])


def bert(w, inputs, m):
    roberta = m.get("layout") == "roberta"
    base, first = ("roberta.", 2) if roberta else ("bert.", 0)
    p = base + "embeddings."
    words = w[p + "word_embeddings.weight"]
    x = words[inputs["tokens"]] + w[p + "position_embeddings.weight"][first:first + m["seq"]]
    x = x + w[p + "token_type_embeddings.weight"][0]
    x = layer_norm(w, p + "LayerNorm", x, m["eps"])
    for i in range(m["layers"]):
        p = base + f"encoder.layer.{i}."
        q, k, v = (heads(linear(w, p + "attention.self." + n, x), m["heads"]) for n in ("query", "key", "value"))
        y = linear(w, p + "attention.output.dense", attention(q, k, v))
        x = layer_norm(w, p + "attention.output.LayerNorm", x + y, m["eps"])
        y = linear(w, p + "output.dense", F.gelu(linear(w, p + "intermediate.dense", x)))
        x = layer_norm(w, p + "output.LayerNorm", x + y, m["eps"])
    if roberta:
        x = layer_norm(w, "lm_head.layer_norm", F.gelu(linear(w, "lm_head.dense", x)), m["eps"])
        return cross_entropy(x @ words.T + w["lm_head.bias"], inputs["labels"])
    p = "cls.predictions."
    x = layer_norm(w, p + "transform.LayerNorm", F.gelu(linear(w, p + "transform.dense", x)), m["eps"])
    return cross_entropy(x @ words.T + w[p + "bias"], inputs["labels"])


def t5_buckets(queries, keys, both_ways, buckets, farthest):
    distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
    result = torch.zeros_like(distance)
    if both_ways:
        buckets //= 2
        result = result + (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = -torch.minimum(distance, torch.zeros_like(distance))
    near = buckets // 2
    far = near + (torch.log(distance.float().clamp(min=1) / near) / math.log(farthest / near) * (buckets - near)).long()
    return result + torch.where(distance < near, distance, far.clamp(max=buckets - 1))


def t5(w, inputs, m):
    eps, buckets, farthest = 1e-6, m.get("buckets", 32), m.get("distance", 128)

    def attend(p, x, memory, mask):
        q = heads(linear(w, p + "q", x), m["heads"])
        k, v = heads(linear(w, p + "k", memory), m["heads"]), heads(linear(w, p + "v", memory), m["heads"])
        return linear(w, p + "o", attention(q, k, v, mask, 1.0))

    def feed(p, x):
        if m.get("gated"):
            y = act(m["act"])(linear(w, p + "wi_0", x)) * linear(w, p + "wi_1", x)
        else:
            y = act(m.get("act", "relu"))(linear(w, p + "wi", x))
        return linear(w, p + "wo", y)

    def bias(side, s, both_ways):
        table = w[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        return table[t5_buckets(s, s, both_ways, buckets, farthest)].permute(2, 0, 1)

    x = w["shared.weight"][inputs["tokens"]]
    mask = bias("encoder", m["seq"], True)
    for i in range(m["layers"]):
        p = f"encoder.block.{i}."
        y = rms_norm(w, p + "layer.0.layer_norm", x, eps)
        x = x + attend(p + "layer.0.SelfAttention.", y, y, mask)
        x = x + feed(p + "layer.1.DenseReluDense.", rms_norm(w, p + "layer.1.layer_norm", x, eps))
    memory = rms_norm(w, "encoder.final_layer_norm", x, eps)
    x = w["shared.weight"][inputs["decoder_tokens"]]
    s = x.shape[1]
    mask = bias("decoder", s, False) + causal_mask(s, x.dtype)
    for i in range(m.get("decoder_layers", m["layers"])):
        p = f"decoder.block.{i}."
        y = rms_norm(w, p + "layer.0.layer_norm", x, eps)
        x = x + attend(p + "layer.0.SelfAttention.", y, y, mask)
        y = rms_norm(w, p + "layer.1.layer_norm", x, eps)
        x = x + attend(p + "layer.1.EncDecAttention.", y, memory, None)
        x = x + feed(p + "layer.2.DenseReluDense.", rms_norm(w, p + "layer.2.layer_norm", x, eps))
    x = rms_norm(w, "decoder.final_layer_norm", x, eps)
    if "lm_head.weight" in w:
        return cross_entropy(x @ w["lm_head.weight"].T, inputs["labels"])
    return cross_entropy(x * m["hidden"] ** -0.5 @ w["shared.weight"].T, inputs["labels"])


def channels_first(inputs):
    return inputs["x"].permute(0, 3, 1, 2)


def vit(w, inputs, m):
    p = "vit.embeddings."
    x = F.conv2d(channels_first(inputs), w[p + "patch_embeddings.projection.weight"],
                 w[p + "patch_embeddings.projection.bias"], stride=m["patch"]).flatten(2).transpose(1, 2)
    x = torch.cat([w[p + "cls_token"].expand(x.shape[0], -1, -1), x], 1) + w[p + "position_embeddings"]
    for i in range(m["layers"]):
        p = f"vit.encoder.layer.{i}."
        y = layer_norm(w, p + "layernorm_before", x, 1e-12)
        q, k, v = (heads(linear(w, p + "attention.attention." + n, y), m["heads"]) for n in ("query", "key", "value"))
        x = x + linear(w, p + "attention.output.dense", attention(q, k, v))
        y = linear(w, p + "intermediate.dense", layer_norm(w, p + "layernorm_after", x, 1e-12))
        x = x + linear(w, p + "output.dense", F.gelu(y))
    x = layer_norm(w, "vit.layernorm", x, 1e-12)[:, 0]
    return cross_entropy(linear(w, "classifier", x), inputs["labels"])


def swin_bias(table, window):
    at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
    offset = at[:, :, None] - at[:, None, :] + window - 1
    return table[offset[0] * (2 * window - 1) + offset[1]].permute(2, 0, 1)


def swin_mask(side, window, shift, dtype):
    zone = torch.zeros(side, side)
    number = 0
    for rows in (slice(0, -window), slice(-window, -shift), slice(-shift, None)):
        for columns in (slice(0, -window), slice(-window, -shift), slice(-shift, None)):
            zone[rows, columns], number = number, number + 1
    zone = windows(zone[None, :, :, None], window)[:, :, 0]
    return torch.where(zone[:, :, None] == zone[:, None, :], 0.0, -100.0).to(dtype)


def windows(x, window):
    b, h, v, c = x.shape
    x = x.view(b, h // window, window, v // window, window, c).transpose(2, 3)
    return x.reshape(-1, window * window, c)


def unwindows(x, window, side):
    n = side // window
    x = x.view(-1, n, n, window, window, x.shape[-1]).transpose(2, 3)
    return x.reshape(-1, side, side, x.shape[-1])


def swin(w, inputs, m):
    p = "swin.embeddings."
    x = F.conv2d(channels_first(inputs), w[p + "patch_embeddings.projection.weight"],
                 w[p + "patch_embeddings.projection.bias"], stride=m["patch"]).permute(0, 2, 3, 1)
    x = layer_norm(w, p + "norm", x, 1e-5)
    for stage, depth in enumerate(m["depths"]):
        side = x.shape[1]
        window = min(m["window"], side)
        for i in range(depth):
            p = f"swin.encoder.layers.{stage}.blocks.{i}."
            shift = window // 2 if i % 2 == 1 and side > window else 0
            y = layer_norm(w, p + "layernorm_before", x, 1e-5)
            y = windows(torch.roll(y, (-shift, -shift), (1, 2)), window)
            q, k, v = (heads(linear(w, p + "attention.self." + n, y), m["heads"][stage]) for n in ("query", "key", "value"))
            mask = swin_bias(w[p + "attention.self.relative_position_bias_table"], window)[None]
            if shift:
                shown = swin_mask(side, window, shift, x.dtype)[:, None]
                mask = (mask + shown).repeat(x.shape[0], 1, 1, 1)
            y = linear(w, p + "attention.output.dense", attention(q, k, v, mask))
            x = x + torch.roll(unwindows(y, window, side), (shift, shift), (1, 2))
            y = linear(w, p + "intermediate.dense", layer_norm(w, p + "layernorm_after", x, 1e-5))
            x = x + linear(w, p + "output.dense", F.gelu(y))
        if stage + 1 < len(m["depths"]):
            p = f"swin.encoder.layers.{stage}.downsample."
            x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
            x = linear(w, p + "reduction", layer_norm(w, p + "norm", x, 1e-5))
    x = layer_norm(w, "swin.layernorm", x, 1e-5).flatten(1, 2).mean(1)
    return cross_entropy(linear(w, "classifier", x), inputs["labels"])


def conv_norm(w, p, x, stride=1, padding=0):
    x = F.conv2d(x, w[p + ".convolution.weight"], stride=stride, padding=padding)
    return F.batch_norm(x, None, None, w[p + ".normalization.weight"], w[p + ".normalization.bias"], training=True)


def resnet(w, inputs, m):
    x = F.relu(conv_norm(w, "resnet.embedder.embedder", channels_first(inputs), 2, 3))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage, depth in enumerate(m["depths"]):
        for i in range(depth):
            p = f"resnet.encoder.stages.{stage}.layers.{i}."
            stride = 2 if stage > 0 and i == 0 else 1
            if m.get("block") == "basic":
                y = F.relu(conv_norm(w, p + "layer.0", x, stride, 1))
                y = conv_norm(w, p + "layer.1", y, 1, 1)
            else:
                y = F.relu(conv_norm(w, p + "layer.0", x))
                y = F.relu(conv_norm(w, p + "layer.1", y, stride, 1))
                y = conv_norm(w, p + "layer.2", y)
            if p + "shortcut.convolution.weight" in w:
                x = conv_norm(w, p + "shortcut", x, stride)
            x = F.relu(x + y)
    return cross_entropy(linear(w, "classifier.1", x.mean((2, 3))), inputs["labels"])


def vgg(w, inputs, m):
    x, number = channels_first(inputs), 0
    for depth in m["depths"]:
        for _ in range(depth):
            x = F.conv2d(x, w[f"features.{number}.weight"], w[f"features.{number}.bias"], padding=1)
            number += 1
            if m.get("norm"):
                x = F.batch_norm(x, None, None, w[f"features.{number}.weight"], w[f"features.{number}.bias"], training=True)
                number += 1
            x = F.relu(x)
            number += 1
        x = F.max_pool2d(x, 2)
        number += 1
    x = F.adaptive_avg_pool2d(x, 7).flatten(1)
    x = F.relu(linear(w, "classifier.0", x))
    x = F.relu(linear(w, "classifier.3", x))
    return cross_entropy(linear(w, "classifier.6", x), inputs["labels"])


def unet(w, inputs, m):
    def convolutions(p, x):
        for i in "01":
            x = F.conv2d(x, w[p + f"conv.{i}.weight"], w[p + f"conv.{i}.bias"], padding=1)
            x = F.silu(F.group_norm(x, m["groups"], w[p + f"norm.{i}.weight"], w[p + f"norm.{i}.bias"]))
        return x

    x, kept = channels_first(inputs), []
    for i in range(len(m["sizes"])):
        if i > 0:
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = convolutions(f"down.{i}.", x)
    for i in reversed(range(len(m["sizes"]) - 1)):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = F.conv2d(x, w[f"up.{i}.conv.weight"], w[f"up.{i}.conv.bias"], padding=1)
        x = convolutions(f"up.{i}.", torch.cat([kept[i], x], 1))
    x = F.conv2d(x, w["head.conv.weight"], w["head.conv.bias"])
    return F.mse_loss(x.permute(0, 2, 3, 1), inputs["targets"])


def mlp(w, inputs, m):
    x = inputs["x"]
    for i in range(m["layers"]):
        x = F.relu(linear(w, f"fc.{i}.linear", x))
    return cross_entropy(linear(w, "head.logits", x), inputs["labels"])


#: name of the case -> (reference, settings as weft takes them)
CASES = {
    "gpt": (gpt, dict(layers=2, hidden=32, heads=4, vocab=64, seq=16)),
    "gpt untied": (gpt, dict(layers=2, hidden=32, heads=4, vocab=64, seq=8, positions=16, tied=0)),
    "gpt moe": (gpt, dict(layers=2, hidden=16, heads=2, vocab=64, seq=8, experts=4, active=2, capacity=1, balance=0.1,
                          sparse_step=2)),
    "llama": (llama, dict(layers=2, hidden=32, heads=4, kv_heads=2, ffn=48, vocab=64, seq=16)),
    "mistral": (llama, dict(layers=2, hidden=32, heads=4, kv_heads=2, ffn=48, vocab=64, seq=16, window=5)),
    "qwen2": (llama, dict(layers=2, hidden=32, heads=4, kv_heads=2, ffn=48, vocab=64, seq=16, qkv_bias=1, tied=1)),
    "qwen3": (llama, dict(layers=2, hidden=32, heads=4, kv_heads=4, ffn=48, vocab=64, seq=16, qk_norm=1)),
    "phi3": (llama, dict(layers=2, hidden=32, heads=4, kv_heads=2, ffn=48, vocab=64, seq=16, layout="phi3")),
    "mixtral": (llama, dict(layers=2, hidden=16, heads=4, kv_heads=2, ffn=24, vocab=64, seq=8, experts=4, active=2,
                            balance=0.05, layout="mixtral")),
    "qwen2-moe": (llama, dict(layers=2, hidden=16, heads=2, kv_heads=2, ffn=24, vocab=64, seq=8, experts=4, active=2,
                              expert_ffn=12, normalise=0, shared_ffn=20, shared_gate=1, qkv_bias=1, layout="qwen2_moe")),
    "deepseek": (llama, dict(layers=3, hidden=16, heads=2, kv_heads=2, ffn=24, vocab=64, seq=8, experts=4, active=2,
                             expert_ffn=12, normalise=0, capacity=1.25, balance=0.01, dense_layers=1, shared_ffn=24,
                             layout="deepseek")),
    "neox": (neox, dict(layers=2, hidden=32, heads=4, vocab=64, seq=16, rotary=4)),
    "neox serial": (neox, dict(layers=2, hidden=32, heads=4, vocab=64, seq=16, rotary=8, parallel=0)),
    "bert": (bert, dict(layers=2, hidden=32, heads=4, vocab=64, seq=16, eps=1e-12)),
    "roberta": (bert, dict(layers=2, hidden=32, heads=4, vocab=64, seq=16, segments=1, eps=1e-5, layout="roberta")),
    "t5": (t5, dict(layers=2, hidden=32, heads=4, vocab=64, seq=16, buckets=8, distance=12)),
    "t5 gated": (t5, dict(layers=2, decoder_layers=1, hidden=32, heads=4, head_dim=6, vocab=64, seq=16, target_seq=8,
                          gated=1, act="gelu_tanh", tied=0)),
    "vit": (vit, dict(layers=2, hidden=32, heads=4, image=16, patch=4, classes=10)),
    "swin": (swin, dict(image=32, patch=2, classes=10, embed=8, depths=[2, 2], heads=[2, 4], window=4)),
    "resnet": (resnet, dict(depths=[1, 1], sizes=[16, 32], stem=8, image=32, classes=10)),
    "resnet basic": (resnet, dict(depths=[2, 1], sizes=[8, 16], stem=8, block="basic", image=32, classes=10)),
    "vgg": (vgg, dict(depths=[1, 2], sizes=[4, 8], image=28, classes=10, inner=16)),
    "vgg norm": (vgg, dict(depths=[1, 1], sizes=[4, 8], norm=1, image=28, classes=10, inner=16)),
    "unet": (unet, dict(sizes=[8, 16, 32], groups=4, image=16)),
    "mlp": (mlp, dict(inputs=24, hidden=32, layers=3, outputs=8)),
}


def model_text(name):
    """The MODEL of the command line."""
    reference, settings = CASES[name]
    words = [f"{k}={'/'.join(map(str, v)) if isinstance(v, list) else v}" for k, v in settings.items()]
    return f"{reference.__name__}:{','.join(words)}"
