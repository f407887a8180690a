"""Models as people write them in PyTorch, for the comparison in vs_pytorch.py.

A model is a function of torch that gives (module, inputs): `module(*inputs())` is the loss of one step.
"""


def gpt(layers, hidden, heads, vocab, seq, batch, fused):
    """GPT-2 with an untied head; `fused`: one linear for q, k and v."""

    def make(torch):
        nn, functional = torch.nn, torch.nn.functional

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
                if fused:
                    self.qkv = nn.Linear(hidden, 3 * hidden)
                else:
                    self.q, self.k, self.v = (nn.Linear(hidden, hidden) for _ in range(3))
                self.proj = nn.Linear(hidden, hidden)
                self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

            def forward(self, x, mask):
                y = self.ln_1(x)
                parts = self.qkv(y).split(hidden, dim=2) if fused else (self.q(y), self.k(y), self.v(y))
                q, k, v = (p.view(batch, seq, heads, hidden // heads).transpose(1, 2) for p in parts)
                scores = (q @ k.transpose(-2, -1)) * (hidden // heads) ** -0.5
                a = functional.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v
                x = x + self.proj(a.transpose(1, 2).contiguous().view(batch, seq, hidden))
                return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))

        class Gpt(nn.Module):
            def __init__(self):
                super().__init__()
                self.wte, self.wpe = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden)
                self.blocks = nn.ModuleList(Block() for _ in range(layers))
                self.ln_f, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)
                self.register_buffer("mask", torch.ones(seq, seq, dtype=torch.bool).triu(1))
                self.register_buffer("positions", torch.arange(seq))

            def forward(self, tokens, labels):
                x = self.wte(tokens) + self.wpe(self.positions)
                for block in self.blocks:
                    x = block(x, self.mask)
                return functional.cross_entropy(self.head(self.ln_f(x)).view(-1, vocab), labels.view(-1))

        def inputs():
            tokens = torch.randint(vocab, (batch, seq + 1))
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

        return Gpt(), inputs

    return make
