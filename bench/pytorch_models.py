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


def llama(layers, hidden, heads, ffn, vocab, seq, batch):
    """RMS norm, rotary positions, SwiGLU, untied head."""

    def make(torch):
        nn, functional = torch.nn, torch.nn.functional
        size = hidden // heads

        class RmsNorm(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(hidden))

            def forward(self, x):
                return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))

        def turned(x, cos, sin):
            a, b = x.chunk(2, dim=-1)
            return x * cos + torch.cat((-b, a), dim=-1) * sin

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm_1, self.norm_2 = RmsNorm(), RmsNorm()
                self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))
                self.gate, self.up = (nn.Linear(hidden, ffn, bias=False) for _ in range(2))
                self.down = nn.Linear(ffn, hidden, bias=False)

            def forward(self, x, mask, cos, sin):
                y = self.norm_1(x)
                q, k, v = (p(y).view(batch, seq, heads, size).transpose(1, 2) for p in (self.q, self.k, self.v))
                q, k = turned(q, cos, sin), turned(k, cos, sin)
                scores = (q @ k.transpose(-2, -1)) * size**-0.5
                a = functional.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v
                x = x + self.o(a.transpose(1, 2).contiguous().view(batch, seq, hidden))
                y = self.norm_2(x)
                return x + self.down(functional.silu(self.gate(y)) * self.up(y))

        class Llama(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(vocab, hidden)
                self.blocks = nn.ModuleList(Block() for _ in range(layers))
                self.norm, self.head = RmsNorm(), nn.Linear(hidden, vocab, bias=False)
                self.register_buffer("mask", torch.ones(seq, seq, dtype=torch.bool).triu(1))
                angle = torch.arange(seq)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)[None, :]
                self.register_buffer("cos", torch.cat((angle, angle), -1).cos())
                self.register_buffer("sin", torch.cat((angle, angle), -1).sin())

            def forward(self, tokens, labels):
                x = self.embed(tokens)
                for block in self.blocks:
                    x = block(x, self.mask, self.cos, self.sin)
                return functional.cross_entropy(self.head(self.norm(x)).view(-1, vocab), labels.view(-1))

        def inputs():
            tokens = torch.randint(vocab, (batch, seq + 1))
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

        return Llama(), inputs

    return make


def bert(layers, hidden, heads, vocab, seq, batch):
    """Norms behind residuals, full attention, a head for hidden tokens tied to the embedding."""

    def make(torch):
        nn, functional = torch.nn, torch.nn.functional

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden) for _ in range(4))
                self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
                self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

            def forward(self, x):
                q, k, v = (p(x).view(batch, seq, heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
                a = functional.softmax((q @ k.transpose(-2, -1)) * (hidden // heads) ** -0.5, dim=-1) @ v
                x = self.norm_1(x + self.o(a.transpose(1, 2).contiguous().view(batch, seq, hidden)))
                return self.norm_2(x + self.down(functional.gelu(self.up(x))))

        class Bert(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.positions, self.segments = (nn.Embedding(n, hidden) for n in (vocab, seq, 2))
                self.norm = nn.LayerNorm(hidden)
                self.blocks = nn.ModuleList(Block() for _ in range(layers))
                self.transform, self.transform_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
                self.bias = nn.Parameter(torch.zeros(vocab))
                self.register_buffer("places", torch.arange(seq))

            def forward(self, tokens, labels):
                x = self.norm(self.words(tokens) + self.positions(self.places) + self.segments.weight[0])
                for block in self.blocks:
                    x = block(x)
                x = self.transform_norm(functional.gelu(self.transform(x)))
                logits = functional.linear(x, self.words.weight, self.bias)
                return functional.cross_entropy(logits.view(-1, vocab), labels.view(-1), ignore_index=-100)

        def inputs():
            tokens = torch.randint(vocab, (batch, seq))
            labels = torch.where(torch.rand(batch, seq) < 0.15, tokens, torch.full_like(tokens, -100))
            return tokens, labels

        return Bert(), inputs

    return make


def resnet18(image, batch, classes, channels_last):
    """torchvision's."""

    def make(torch):
        import torchvision

        functional = torch.nn.functional
        layout = torch.channels_last if channels_last else torch.contiguous_format

        class Classifier(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torchvision.models.resnet18(num_classes=classes).to(memory_format=layout)

            def forward(self, images, labels):
                return functional.cross_entropy(self.net(images), labels)

        def inputs():
            images = torch.randn(batch, 3, image, image).to(memory_format=layout)
            return images, torch.randint(classes, (batch,))

        return Classifier(), inputs

    return make
