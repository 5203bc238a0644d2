from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from train.config import PRESETS
from train.loss import summed_nats
from train.model import (
    Attention,
    Decoder,
    KeyValues,
    attend,
    block_mask,
    document_mask,
    flops_per_token,
    padded_vocab_size,
    rotary_tables,
    rotate,
)

TINY = dataclasses.replace(
    PRESETS["demo-1m"], layers=2, dim=16, heads=4, kv_heads=2, ffn_dim=24, context=12, qk_norm=True, tied=False
)


def tiny(seed=0, **changes):
    model = Decoder(dataclasses.replace(TINY, **changes), 64)
    model.initialize(seed)
    return model


def tokens(batch=3, length=12, seed=1):
    return torch.randint(0, 64, (batch, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("qk_norm", [True, False])
def test_a_later_token_never_changes_earlier_logits(tied, qk_norm):
    model = tiny(tied=tied, qk_norm=qk_norm)
    before = tokens()
    for place in (1, 5, 11):
        after = before.clone()
        after[:, place] = (after[:, place] + 1) % 64
        with torch.no_grad():
            old, new = model.logits(before), model.logits(after)
        assert torch.equal(old[:, :place], new[:, :place])
        assert not torch.allclose(old[:, place:], new[:, place:])


def test_sequences_of_a_batch_do_not_see_each_other():
    model = tiny()
    batch = tokens()
    with torch.no_grad():
        assert torch.allclose(model.logits(batch)[1], model.logits(batch[1:2])[0], atol=1e-6)


def test_rotation_by_hand():
    cosine, sine = rotary_tables(3, 4, base=100.0)
    # Frequencies 1 and 100^(-2/4) = 0.1: position 2 turns pair (0, 2) by 2 and pair (1, 3) by 0.2 radians.
    x = torch.tensor([[1.0, 0.0, 0.0, 1.0]]).expand(3, 4)
    expected = [math.cos(2), -math.sin(0.2), math.sin(2), math.cos(0.2)]
    assert rotate(x, cosine, sine)[2].tolist() == pytest.approx(expected, abs=1e-6)
    assert rotate(x, cosine, sine)[0].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_rotated_scores_depend_on_distance_only():
    cosine, sine = rotary_tables(12, 8, base=10_000.0)
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(8, generator=generator).expand(12, 8) for _ in range(2))
    scores = rotate(query, cosine, sine) @ rotate(key, cosine, sine).t()
    for distance in (-3, 0, 4):
        diagonal = scores.diagonal(distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-5)


def test_grouped_attention_is_attention_with_shared_keys_and_values():
    attention = Attention(dataclasses.replace(TINY, qk_norm=False))
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(2))
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(3))
    cosine, sine = rotary_tables(5, 4, 10_000.0)
    query, key, value = attention.qkv(x)[0].split((16, 8, 8), dim=-1)
    gathered = []
    for head in range(4):
        group = head // 2  # heads 0 and 1 share key-value head 0
        q = rotate(query[:, 4 * head : 4 * head + 4], cosine, sine)
        k = rotate(key[:, 4 * group : 4 * group + 4], cosine, sine)
        scores = q @ k.t() / 2.0  # sqrt(4)
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
        gathered.append(scores.softmax(-1) @ value[:, 4 * group : 4 * group + 4])
    expected = torch.cat(gathered, -1) @ attention.out.weight.t()
    assert torch.allclose(attention(x, cosine, sine)[0], expected, atol=1e-6)


@pytest.mark.parametrize(("qk_norm", "kv_heads"), [(True, 2), (False, 4)])
@pytest.mark.parametrize("parts", [(5, 1, 1, 1, 1, 1, 1, 1), (4, 3, 5), (1,) * 12])
def test_tokens_in_several_calls_are_those_of_one(parts, qk_norm, kv_heads):
    model = tiny(qk_norm=qk_norm, kv_heads=kv_heads)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(2))
    batch = tokens()
    seen = [KeyValues() for _ in model.blocks]
    with torch.no_grad():
        whole = model(batch)
        pieces = torch.cat([model(part, seen) for part in batch.split(parts, dim=1)], dim=1)
    assert seen[0].length == 12
    assert whole.std() > 0.3
    assert torch.allclose(pieces, whole, atol=1e-5)


def test_weights_depend_on_the_seed_alone():
    torch.manual_seed(123)  # the global generator plays no part
    first, again, other = tiny(0).state_dict(), tiny(0).state_dict(), tiny(1).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


def test_initial_spread():
    model = Decoder(dataclasses.replace(TINY, layers=8, dim=128, heads=4, ffn_dim=352), 512)
    model.initialize(0)
    block = model.blocks[3]
    assert block.attention.qkv.weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert block.mlp.down.weight.std().item() == pytest.approx(0.02 / 4, rel=0.03)  # sqrt(2 * 8) = 4
    assert block.attention.out.weight.std().item() == pytest.approx(0.005, rel=0.03)
    assert torch.equal(block.mlp_norm.weight, torch.ones(128))


def test_a_fresh_model_knows_nothing():
    model = tiny()
    inputs, targets = tokens(16, seed=2), tokens(16, seed=3)
    with torch.no_grad():
        nats = summed_nats(model(inputs), model.head_weight, targets)
    assert nats.item() / targets.numel() == pytest.approx(math.log(64), abs=0.02)


def test_tied_models_have_one_matrix():
    model = tiny(tied=True)
    assert model.head_weight is model.embedding.weight
    assert "head.weight" not in model.state_dict()


def test_bfloat16_is_close_to_float32():
    model = tiny()
    inputs, targets = tokens(), tokens(seed=4)
    results = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            nats = summed_nats(model(inputs), model.head_weight, targets)
        nats.backward()
        results.append((nats.item(), model.blocks[0].mlp.down.weight.grad.clone()))
    (exact, exact_grad), (rounded, rounded_grad) = results
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=2e-3)  # 8 bits of mantissa
    assert rounded_grad.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(exact_grad.flatten(), rounded_grad.flatten(), dim=0) > 0.99


def test_the_decoder_compiles_to_one_graph():
    model = tiny()
    inputs, targets = tokens(), tokens(seed=4)
    compiled = torch.compile(
        model, fullgraph=True, dynamic=False, backend="aot_eager"
    )  # no C++: see the slow test of the loop
    grads = []
    for hidden_of in (model, compiled):
        model.zero_grad()
        nats = summed_nats(hidden_of(inputs), model.head_weight, targets)
        nats.backward()
        grads.append((nats.detach(), *(parameter.grad.clone() for parameter in model.parameters())))
    for plain, graph in zip(*grads, strict=True):
        assert torch.allclose(plain, graph, atol=1e-5)


# Three documents, each behind an EOS (2); the last is cut by the end of the row.
EOS = 2
PARTS = ([EOS, 5, 9, 7], [EOS, 11], [EOS, 30, 31, 5, 9, 40])
PACKED = torch.tensor([[token for part in PARTS for token in part]])


def test_masked_pairs_by_hand():
    mask = document_mask(
        torch.tensor([[7, EOS, 5, EOS, EOS]]), EOS
    )  # the end of a document, one of one token, two empty
    assert mask.int().tolist() == [
        [[[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]]
    ]


@pytest.mark.parametrize("qk_norm", [True, False])
def test_packed_documents_are_what_they_are_alone(qk_norm):
    settings = dataclasses.replace(TINY, qk_norm=qk_norm)
    masked, plain = Decoder(settings, 64, eos_id=EOS), Decoder(settings, 64)
    masked.initialize(0)
    plain.initialize(0)
    with torch.no_grad():
        packed = masked.logits(PACKED)[0]
        alone = torch.cat([plain.logits(torch.tensor([part]))[0] for part in PARTS])
        unmasked = plain.logits(PACKED)[0]
    assert torch.allclose(packed, alone, atol=1e-5)
    assert torch.allclose(packed[:4], unmasked[:4], atol=1e-5)
    assert not torch.allclose(packed[4:], unmasked[4:], atol=1e-3)


def test_no_gradient_crosses_documents():
    model = Decoder(TINY, 64, eos_id=EOS)
    model.initialize(0)
    targets = torch.full_like(PACKED, -100)
    targets[0, 4:6] = torch.tensor([11, EOS])  # the second document's losses, of its first token and of its end
    summed_nats(model(PACKED), model.head_weight, targets).backward()
    seen = {int(token) for token in model.embedding.weight.grad.abs().sum(1).nonzero()}
    assert seen == {EOS, 11}


def test_without_a_mask_attention_is_causal_as_before():
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 6, 8, generator=generator)
    key, value = torch.randn(2, 2, 2, 6, 8, generator=generator)
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    assert torch.equal(attend(query, key, value, None), plain)


def test_the_block_mask_is_the_dense_mask():
    # Its backward pass needs CUDA; what it lets through does not.
    from torch.nn.attention.flex_attention import create_mask

    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 12, (3, 40), generator=generator)
    block = block_mask((tokens == EOS).cumsum(1))
    dense = create_mask(block.mask_mod, 3, 1, 40, 40, device="cpu")
    assert torch.equal(dense, document_mask(tokens, EOS))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="flex_attention has a backward pass on CUDA only")
@pytest.mark.parametrize("length", [128, 200])
def test_flex_attention_is_attention_under_the_dense_mask(length):
    settings = dataclasses.replace(TINY, dim=64, heads=4, kv_heads=2, context=length)
    tokens = torch.randint(0, 40, (3, length), generator=torch.Generator().manual_seed(0)).cuda()
    results = []
    for compiled in (False, True):
        model = Decoder(settings, 64, eos_id=EOS)
        model.initialize(0)
        model.cuda()
        hidden_of = torch.compile(model, fullgraph=True, dynamic=False) if compiled else model
        nats = summed_nats(hidden_of(tokens), model.head_weight, tokens.roll(-1, 1))
        nats.backward()
        results.append((nats.detach(), *(parameter.grad for parameter in model.parameters())))
    for dense, block in zip(*results, strict=True):
        assert torch.allclose(dense, block, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("size", "padded"), [(1, 64), (63, 64), (64, 64), (65, 128), (50_257, 50_304)])
def test_the_vocabulary_is_padded_to_64(size, padded):
    assert padded_vocab_size(size) == padded


def test_operations_by_hand():
    # Weights: 4 blocks of 184,576 - 256 norms, head 4096 x 128. Attention: 6 * 4 layers * 128 tokens * 128 wide.
    assert flops_per_token(PRESETS["demo-1m"], 4096) == 6 * (4 * 184_320 + 524_288) + 393_216 == 7_962_624


def test_operations_of_grouped_queries_by_hand():
    # 1b: q and out 2048 x 2048, k and v 2048 x (4 heads of 128); gate, up, down 2048 x 5504; 22 layers; head 50,304 x 2048.
    weights = 22 * (2 * 4_194_304 + 2 * 1_048_576 + 3 * 11_272_192) + 103_022_592
    assert weights == 1_077_673_984
    # Scores and mixing are per query head: 12 * layers * T * C (PaLM, appendix B), halved for the causal half.
    assert flops_per_token(PRESETS["1b"], 50_304) == 6 * weights + 12 * 22 * 2048 * 2048 // 2 == 7_019_692_032
