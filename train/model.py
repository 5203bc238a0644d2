"""The decoder: embedding, attention, MLP, block, head.

Llama's architecture (Touvron et al. 2023, arXiv:2302.13971): pre-norm with RMSNorm, rotary positions, SwiGLU, no biases;
grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245); optionally normalised queries and keys (Dehghani et al.
2023, arXiv:2302.05442) and tied embeddings. Letters in shapes: B sequences, T tokens, C width, H heads, K key-value
heads, D head width, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from train.config import Settings

IGNORED = -100  # a target that is not counted
INITIAL_STD = 0.02  # GPT-2's; residual projections are divided by sqrt(2 * layers) (Radford et al. 2019)


def padded_vocab_size(vocab_size: int) -> int:
    """Return the rows of embedding and head: the next multiple of 64, which matrix kernels prefer."""
    return math.ceil(vocab_size / 64) * 64


def rotary_tables(context: int, head_dim: int, base: float) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of position * base^(-2i / head_dim), each of shape (context, head_dim / 2)."""
    frequencies = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(context, dtype=torch.float64), frequencies)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate pairs (i, i + D/2) of the last axis by their position's angle (Su et al. 2021, arXiv:2104.09864).

    Args:
        x: Shape (..., T, D).
        cosine: Shape (T, D / 2).
        sine: Shape (T, D / 2).
    """
    first, second = x.chunk(2, dim=-1)  # halves, not neighbours: the layout of Llama checkpoints in transformers
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention with grouped queries."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = settings.heads, settings.kv_heads, settings.head_dim
        self.qkv = nn.Linear(settings.dim, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.out = nn.Linear(settings.dim, settings.dim, bias=False)
        self.qk_norm = settings.qk_norm
        if settings.qk_norm:
            self.query_norm = nn.RMSNorm(self.head_dim, eps=settings.norm_eps)
            self.key_norm = nn.RMSNorm(self.head_dim, eps=settings.norm_eps)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return what each token gathers from itself and those before it, shape (B, T, C) as `x`."""
        batch, length, width = x.shape  # (B, T, C)
        heads = self.qkv(x).view(batch, length, self.heads + 2 * self.kv_heads, self.head_dim).transpose(1, 2)
        query, key, value = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)  # (B, H or K, T, D)
        if self.qk_norm:
            # In float32: under autocast the gains are float32 too, and one kernel wants one type.
            query = self.query_norm(query.float()).to(value.dtype)
            key = self.key_norm(key.float()).to(value.dtype)
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=self.kv_heads != self.heads
        )  # (B, H, T, D)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))  # type: ignore[no-any-return]


class MLP(nn.Module):
    """SwiGLU (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.gate_up = nn.Linear(settings.dim, 2 * settings.ffn_dim, bias=False)
        self.down = nn.Linear(settings.ffn_dim, settings.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the transformed tokens, shape (B, T, C) as `x`."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and MLP, each behind a norm and added to the residual stream."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(settings.dim, eps=settings.norm_eps)
        self.attention = Attention(settings)
        self.mlp_norm = nn.RMSNorm(settings.dim, eps=settings.norm_eps)
        self.mlp = MLP(settings)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Return the residual stream after this block, shape (B, T, C) as `x`."""
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """A decoder-only language model. `forward` gives hidden states: the head is applied by `summed_nats`, in chunks."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, settings: Settings, vocab_size: int) -> None:
        """Build the model with uninitialised weights; `initialize` draws them.

        Args:
            settings: The shape.
            vocab_size: Rows of the embedding, already padded.
        """
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, settings.dim)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.norm = nn.RMSNorm(settings.dim, eps=settings.norm_eps)
        self.head = None if settings.tied else nn.Linear(settings.dim, vocab_size, bias=False)
        cosine, sine = rotary_tables(settings.context, settings.head_dim, settings.rope_base)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return hidden states, shape (B, T, C), of tokens, shape (B, T), T at most the context."""
        x = self.embedding(tokens)
        cosine, sine = self.cosine[: tokens.shape[1]], self.sine[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, cosine, sine)
        return self.norm(x)  # type: ignore[no-any-return]

    @property
    def head_weight(self) -> Tensor:
        """Return the output matrix, shape (V, C): the embedding's own if tied."""
        return self.embedding.weight if self.head is None else self.head.weight

    def logits(self, tokens: Tensor) -> Tensor:
        """Return logits, shape (B, T, V), of tokens, shape (B, T)."""
        return functional.linear(self(tokens), self.head_weight)

    @torch.no_grad()
    def initialize(self, seed: int) -> None:
        """Draw all weights from a generator seeded with `seed`, on the CPU: the same on every device."""
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                parameter.fill_(1.0)
                continue
            residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
            std = INITIAL_STD / math.sqrt(2 * len(self.blocks)) if residual else INITIAL_STD
            parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=generator))


def flops_per_token(settings: Settings, vocab_size: int) -> int:
    """Return floating-point operations of one training token, forward and backward.

    6 per weight of a matrix (the head's included, the embedding's not: it is a look-up) and 6 * layers * T * C for scores
    and mixing, halved from the usual 12 because a causal token sees half of the context (Chowdhery et al. 2022,
    arXiv:2204.02311, appendix B).
    """
    attention = settings.dim * settings.head_dim * (2 * settings.heads + 2 * settings.kv_heads)
    weights = settings.layers * (attention + 3 * settings.dim * settings.ffn_dim) + vocab_size * settings.dim
    return 6 * weights + 6 * settings.layers * settings.context * settings.dim


class _SummedNats(torch.autograd.Function):
    """Head and cross-entropy over chunks of rows: logits of the whole batch never lie in memory at once.

    The gradient is made in the forward pass, while the chunk's probabilities are at hand.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int) -> Tensor:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        needs_grad = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        nats = torch.zeros((), dtype=torch.float64, device=hidden.device)
        grad_hidden = torch.empty_like(hidden) if needs_grad else None
        grad_weight = torch.zeros_like(weight) if needs_grad else None
        with torch.autocast(device, enabled=False):
            matrix = weight.to(dtype)
            for start in range(0, hidden.shape[0], chunk):
                rows = hidden[start : start + chunk].to(dtype)  # (R, C)
                wanted = targets[start : start + chunk]  # (R,)
                counted = wanted != IGNORED
                columns = wanted.masked_fill(~counted, 0)[:, None]
                log_probs = torch.log_softmax((rows @ matrix.t()).float(), dim=-1)  # (R, V)
                picked = log_probs.gather(1, columns)[:, 0]
                nats -= picked.masked_fill(~counted, 0.0).sum(dtype=torch.float64)
                if grad_hidden is None or grad_weight is None:
                    continue
                grad = log_probs.exp_()  # d nats / d logits = probabilities - one-hot
                grad.scatter_add_(1, columns, torch.full_like(picked, -1.0)[:, None])
                grad.masked_fill_(~counted[:, None], 0.0)
                grad = grad.to(dtype)
                grad_hidden[start : start + chunk] = grad @ matrix
                grad_weight += grad.t() @ rows
        ctx.save_for_backward(grad_hidden, grad_weight)
        return nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad, grad_weight * grad, None, None


def summed_nats(hidden: Tensor, weight: Tensor, targets: Tensor, *, chunk: int = 4096) -> Tensor:
    """Return the code length of the targets in nats: the summed cross-entropy, a float64 scalar.

    Args:
        hidden: What the decoder gives, shape (B, T, C).
        weight: The output matrix, shape (V, C).
        targets: Shape (B, T); `IGNORED` is not counted.
        chunk: Rows whose logits are held at once; bounds memory at chunk * V floats.
    """
    result: Tensor = _SummedNats.apply(hidden.flatten(0, 1), weight, targets.flatten(), chunk)  # type: ignore[no-untyped-call]
    return result
