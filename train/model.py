"""The decoder: embedding, attention, MLP, block, head.

Llama's architecture (Touvron et al. 2023, arXiv:2302.13971): pre-norm with RMSNorm, rotary positions, SwiGLU, no biases;
grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245); optionally normalised queries and keys (Dehghani et al.
2023, arXiv:2302.05442) and tied embeddings. Letters in shapes: B sequences, T tokens, C width, H heads, K key-value
heads, D head width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from train import kernels
from train.config import Settings

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

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
    if kernels.apply_here(x):
        return kernels.rotate(x, cosine, sine)
    first, second = x.chunk(2, dim=-1)  # halves, not neighbours: the layout of Llama checkpoints in transformers
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


class RMSNorm(nn.RMSNorm):
    """Root mean square normalisation (Zhang and Sennrich 2019, arXiv:1910.07467)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, shape (..., C), with mean square 1 along its last axis, times the gains."""
        if kernels.apply_here(x, self.weight):
            assert self.eps is not None
            return kernels.rms_norm(x, self.weight, self.eps)
        return super().forward(x)


def document_mask(tokens: Tensor, eos_id: int) -> Tensor | BlockMask:
    """Return which tokens a token may attend to: itself and those before it in its own document.

    An EOS as an input is where the first token of the next document is predicted, so it is that document's first; as a target
    it still ends its own. So nothing of a document's loss depends on another, and a document alone behind an EOS, as it is
    scored and sampled, is what it was in training. Positions go on through a row: rotary scores know distances only.

    On CUDA under torch.compile it is a block mask for flex_attention, which skips blocks of other documents. `varlen_attn`
    would want the documents' lengths, whose number differs from batch to batch: a graph break and a wait for the GPU in
    each step; and it knows no float32. Everywhere else a dense mask: flex_attention has no backward pass on the CPU, and
    without torch.compile it holds all scores.

    Args:
        tokens: Shape (B, T).
        eos_id: Between documents.

    Returns:
        A block mask, or booleans of shape (B, 1, T, T).
    """
    documents = (tokens == eos_id).cumsum(1)  # (B, T): number of its document in the row
    if tokens.is_cuda and torch.compiler.is_compiling():
        return block_mask(documents)
    same = documents[:, None, :, None] == documents[:, None, None, :]
    return same.tril()


def block_mask(documents: Tensor) -> BlockMask:
    """Return flex_attention's causal mask within documents; `documents` has shape (B, T)."""
    from torch.nn.attention.flex_attention import create_block_mask

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        del head
        return (query >= key) & (documents[batch, query] == documents[batch, key])

    rows, length = documents.shape
    return create_block_mask(visible, rows, None, length, length, device=str(documents.device))


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | BlockMask | None) -> Tensor:
    """Return the values' means by causal attention, shape (B, H, T, D) as `query`; H is a multiple of K.

    Args:
        query: Shape (B, H, T, D).
        key: Shape (B, K, T, D).
        value: Shape (B, K, T, D).
        mask: From `document_mask`; None: every token before is seen.
    """
    grouped = key.shape[1] != query.shape[1]
    if mask is None:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped)
    if isinstance(mask, Tensor):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=grouped)
    from torch.nn.attention.flex_attention import flex_attention

    mixed: Any = flex_attention(query, key, value, block_mask=mask, enable_gqa=grouped)
    return mixed  # type: ignore[no-any-return]


class KeyValues:
    """Keys and values of the tokens that a block's attention has seen, so that a further one costs one token."""

    def __init__(self) -> None:
        self.key: Tensor | None = None  # (B, K, T so far, D)
        self.value: Tensor | None = None

    @property
    def length(self) -> int:
        """Return the number of tokens seen."""
        return 0 if self.key is None else self.key.shape[2]

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take in those of further tokens; return all."""
        self.key = key if self.key is None else torch.cat((self.key, key), dim=2)
        self.value = value if self.value is None else torch.cat((self.value, value), dim=2)
        return self.key, self.value


class Attention(nn.Module):
    """Causal self-attention with grouped queries."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = settings.heads, settings.kv_heads, settings.head_dim
        self.qkv = nn.Linear(settings.dim, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.out = nn.Linear(settings.dim, settings.dim, bias=False)
        self.qk_norm = settings.qk_norm
        if settings.qk_norm:
            self.query_norm = RMSNorm(self.head_dim, eps=settings.norm_eps)
            self.key_norm = RMSNorm(self.head_dim, eps=settings.norm_eps)

    def forward(
        self,
        x: Tensor,
        cosine: Tensor,
        sine: Tensor,
        mask: Tensor | BlockMask | None = None,
        seen: KeyValues | None = None,
    ) -> Tensor:
        """Return what each token gathers from itself and those before it, shape (B, T, C) as `x`."""
        batch, length, width = x.shape  # (B, T, C)
        heads = self.qkv(x).view(batch, length, self.heads + 2 * self.kv_heads, self.head_dim).transpose(1, 2)
        query, key, value = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)  # (B, H or K, T, D)
        if self.qk_norm:
            # In float32: under autocast the gains are float32 too, and one kernel wants one type.
            query = self.query_norm(query.float()).to(value.dtype)
            key = self.key_norm(key.float()).to(value.dtype)
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        if seen is not None:
            key, value = seen.extend(key, value)
        mixed = attend(query, key, value, mask)  # (B, H, T, D)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))  # type: ignore[no-any-return]


class MLP(nn.Module):
    """SwiGLU (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.gate_up = nn.Linear(settings.dim, 2 * settings.ffn_dim, bias=False)
        self.down = nn.Linear(settings.ffn_dim, settings.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the transformed tokens, shape (B, T, C) as `x`."""
        if kernels.apply_here(x, self.gate_up.weight):
            return self.down(kernels.swiglu(x, self.gate_up.weight))  # type: ignore[no-any-return]
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and MLP, each behind a norm and added to the residual stream."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(settings.dim, eps=settings.norm_eps)
        self.attention = Attention(settings)
        self.mlp_norm = RMSNorm(settings.dim, eps=settings.norm_eps)
        self.mlp = MLP(settings)

    def forward(
        self,
        x: Tensor,
        cosine: Tensor,
        sine: Tensor,
        mask: Tensor | BlockMask | None = None,
        seen: KeyValues | None = None,
    ) -> Tensor:
        """Return the residual stream after this block, shape (B, T, C) as `x`."""
        x = x + self.attention(self.attention_norm(x), cosine, sine, mask, seen)
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """A decoder-only language model. `forward` gives hidden states: the head is applied by `train.loss`, in chunks."""

    cosine: Tensor
    sine: Tensor

    def __init__(
        self, settings: Settings, vocab_size: int, *, num_ids: int | None = None, eos_id: int | None = None
    ) -> None:
        """Build the model with uninitialised weights; `initialize` draws them.

        Args:
            settings: The shape.
            vocab_size: Rows of the embedding, already padded.
            num_ids: Rows that are tokens, which alone are predicted; None: all.
            eos_id: If given, no token attends beyond the EOS that its document follows (`document_mask`).
        """
        super().__init__()
        self.eos_id = eos_id
        self.num_ids = num_ids or vocab_size
        self.embedding = nn.Embedding(vocab_size, settings.dim)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.norm = RMSNorm(settings.dim, eps=settings.norm_eps)
        self.head = None if settings.tied else nn.Linear(settings.dim, vocab_size, bias=False)
        cosine, sine = rotary_tables(settings.context, settings.head_dim, settings.rope_base)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, tokens: Tensor, seen: Sequence[KeyValues] | None = None) -> Tensor:
        """Return hidden states, shape (B, T, C), of tokens, shape (B, T), T at most the context.

        Args:
            tokens: Shape (B, T).
            seen: One for each block: of the tokens before, which count in the context; takes these in.
        """
        start = seen[0].length if seen else 0
        stop = start + tokens.shape[1]
        x = self.embedding(tokens)
        cosine, sine = self.cosine[start:stop], self.sine[start:stop]
        mask = None if self.eos_id is None else document_mask(tokens, self.eos_id)
        if start:
            assert self.eos_id is None, "where documents end before these tokens is not known"
            mask = torch.ones(tokens.shape[1], stop, dtype=torch.bool, device=tokens.device).tril(start)
        parts: Sequence[KeyValues | None] = seen or [None] * len(self.blocks)
        for block, part in zip(self.blocks, parts, strict=True):
            x = block(x, cosine, sine, mask, part)
        return self.norm(x)  # type: ignore[no-any-return]

    @property
    def padded_head_weight(self) -> Tensor:
        """Return the output matrix with the rows that fill it up, shape (V, C): the embedding's own if tied."""
        return self.embedding.weight if self.head is None else self.head.weight

    @property
    def head_weight(self) -> Tensor:
        """Return the rows of the output matrix that are tokens, shape (ids, C)."""
        weight = self.padded_head_weight
        return weight if self.num_ids == len(weight) else weight[: self.num_ids]

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
