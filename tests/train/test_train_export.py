"""Export: names and shapes by hand, logits by an independent reading of the exported files, and all that can go wrong."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil

import jinja2
import pytest
import safetensors
import tokenizers
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch.nn import functional
from trained_run import MARK, TOKENIZER_VOCAB, trained_run, write_tokenizer

from curate.tokens.tokenizer import load_tokenizer
from train import checkpoint, export
from train.__main__ import main
from train.config import PRESETS
from train.export import transformers_config, transformers_tensors
from train.model import Decoder
from train.tuning.examples import read_examples

# head width 2: queries have 4 rows, keys and values 2 each
HAND = dataclasses.replace(PRESETS["demo-1m"], layers=1, dim=4, heads=2, kv_heads=1, ffn_dim=3, context=16)
SHAPES = [(True, 1, False), (False, 2, False), (True, 2, True), (False, 1, True)]  # tied, kv_heads of 2, qk_norm


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with two checkpoints, 10 and 12."""
    return trained_run(tmp_path_factory.mktemp("trained"), steps=12)


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run.parent.parent, tmp_path / "copy")
    return tmp_path / "copy" / "train" / "0"


def exported(run, output, *more):
    return main(["export", str(run), "--output", str(output), *map(str, more)])


def test_fused_weights_are_taken_apart_and_padding_is_left_out():
    numbers = iter(range(10_000))

    def count(*shape):
        return torch.tensor([float(next(numbers)) for _ in range(math.prod(shape))]).view(shape)

    weights = {
        "embedding.weight": count(64, 4),  # 5 ids and padding: numbers from 0
        "blocks.0.attention_norm.weight": count(4),  # 256
        "blocks.0.attention.qkv.weight": count(8, 4),  # 260: queries; 276: keys; 284: values
        "blocks.0.attention.out.weight": count(4, 4),  # 292
        "blocks.0.mlp_norm.weight": count(4),  # 308
        "blocks.0.mlp.gate_up.weight": count(6, 4),  # 312: gate; 324: up
        "blocks.0.mlp.down.weight": count(4, 3),  # 336
        "norm.weight": count(4),  # 348
    }
    tensors = transformers_tensors(weights, HAND, 5)
    layer = "model.layers.0"
    firsts_and_shapes = {
        "model.embed_tokens.weight": (0, (5, 4)),
        f"{layer}.input_layernorm.weight": (256, (4,)),
        f"{layer}.self_attn.q_proj.weight": (260, (4, 4)),
        f"{layer}.self_attn.k_proj.weight": (276, (2, 4)),
        f"{layer}.self_attn.v_proj.weight": (284, (2, 4)),
        f"{layer}.self_attn.o_proj.weight": (292, (4, 4)),
        f"{layer}.post_attention_layernorm.weight": (308, (4,)),
        f"{layer}.mlp.gate_proj.weight": (312, (3, 4)),
        f"{layer}.mlp.up_proj.weight": (324, (3, 4)),
        f"{layer}.mlp.down_proj.weight": (336, (4, 3)),
        "model.norm.weight": (348, (4,)),
    }
    assert {name: (one.flatten()[0].item(), tuple(one.shape)) for name, one in tensors.items()} == firsts_and_shapes
    untied = transformers_tensors({**weights, "head.weight": count(64, 4)}, dataclasses.replace(HAND, tied=False), 5)
    assert set(untied) - set(tensors) == {"lm_head.weight"}
    assert untied["lm_head.weight"].flatten().tolist() == list(range(352, 372))


def test_config_by_hand():
    llama = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 5, "hidden_size": 4,
        "intermediate_size": 3, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2,
        "hidden_act": "silu", "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0,
        "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
    }  # fmt: skip
    assert transformers_config(HAND, 5) == llama
    qwen = transformers_config(dataclasses.replace(HAND, qk_norm=True, tied=False), 5)
    assert (qwen["architectures"], qwen["model_type"]) == (["Qwen3ForCausalLM"], "qwen3")
    assert (qwen["head_dim"], qwen["attention_bias"], qwen["use_sliding_window"]) == (2, False, False)
    assert qwen["tie_word_embeddings"] is False


def reference_logits(folder, ids):
    """Llama and Qwen3 as transformers documents them, in float64, from the files alone: one head at a time, no kernels."""
    config = json.loads((folder / "config.json").read_text())
    weights = {name: one.double() for name, one in load_file(folder / "model.safetensors").items()}
    heads, groups, width = (config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))

    def norm(x, gain):
        return x / (x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]).sqrt() * gain

    def rotated(x):
        angles = torch.outer(
            torch.arange(len(x)).double(), config["rope_theta"] ** (-torch.arange(0, width, 2).double() / width)
        )
        angles = torch.cat([angles, angles], -1)
        turned = torch.cat([-x[:, width // 2 :], x[:, : width // 2]], -1)  # rotate_half
        return x * angles.cos() + turned * angles.sin()

    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        part = {
            name.removeprefix(f"model.layers.{layer}.").removesuffix(".weight"): one for name, one in weights.items()
        }
        inner = norm(x, part["input_layernorm"])
        gathered = []
        for head in range(heads):
            group = head * groups // heads
            query = inner @ part["self_attn.q_proj"][head * width : (head + 1) * width].T
            key = inner @ part["self_attn.k_proj"][group * width : (group + 1) * width].T
            value = inner @ part["self_attn.v_proj"][group * width : (group + 1) * width].T
            if config["model_type"] == "qwen3":
                query, key = norm(query, part["self_attn.q_norm"]), norm(key, part["self_attn.k_norm"])
            scores = rotated(query) @ rotated(key).T / math.sqrt(width)
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
            gathered.append(scores.softmax(-1) @ value)
        x = x + torch.cat(gathered, -1) @ part["self_attn.o_proj"].T
        inner = norm(x, part["post_attention_layernorm"])
        gate = functional.silu(inner @ part["mlp.gate_proj"].T)
        x = x + (gate * (inner @ part["mlp.up_proj"].T)) @ part["mlp.down_proj"].T
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, weights["model.norm.weight"]) @ weights[head].T


@pytest.mark.parametrize(("tied", "kv_heads", "qk_norm"), SHAPES)
def test_what_the_files_compute_is_what_the_model_computes(tmp_path, tied, kv_heads, qk_norm):
    run = trained_run(tmp_path, spread=0.3, layers=2, tied=tied, kv_heads=kv_heads, qk_norm=qk_norm, lr=1e-6)
    assert exported(run, tmp_path / "hf") == 0
    ids = torch.randint(0, TOKENIZER_VOCAB, (8,), generator=torch.Generator().manual_seed(1))
    settings = dataclasses.replace(
        HAND, layers=2, dim=16, heads=2, kv_heads=kv_heads, ffn_dim=32, context=8, tied=tied, qk_norm=qk_norm
    )
    model = Decoder(settings, 320)
    model.load_state_dict(checkpoint.find(run, warn=pytest.fail).tensors["model"])
    with torch.no_grad():
        expected = model.logits(ids[None])[0, :, :TOKENIZER_VOCAB]
    assert expected.std() > 0.5  # the comparison below means something
    assert torch.allclose(reference_logits(tmp_path / "hf", ids), expected.double(), atol=1e-5)


def test_a_folder_of_an_export(run, tmp_path, capsys):
    assert exported(run, tmp_path / "deep" / "hf") == 0
    assert capsys.readouterr().out == ""
    folder = tmp_path / "deep" / "hf"
    names = {"README.md", "config.json", "export.json", "generation_config.json", "model.safetensors",
             "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}  # fmt: skip
    assert {path.name for path in folder.iterdir()} == names
    assert [path.name for path in folder.parent.iterdir()] == ["hf"]
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_slice("model.embed_tokens.weight").get_shape() == [TOKENIZER_VOCAB, 16]
    config = json.loads((folder / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"], config["torch_dtype"]) == (2, 2, "float32")
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation == {"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 2}
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert (tokenizer["eos_token"], tokenizer["bos_token"]) == (MARK, MARK)
    ids = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode("é the")
    assert ids.ids == [0xC3 + 1, 0xA9 + 1, 259]
    written = json.loads((folder / "export.json").read_text())
    assert (written["step"], written["identity"]["seed"]) == (12, 0)
    assert set(written["files"]) == names - {"export.json"}


def test_the_card_tells_what_the_run_knows(run, tmp_path):
    assert exported(run, tmp_path / "last") == 0
    card = (tmp_path / "last" / "README.md").read_text()
    summary = json.loads((run / "summary.json").read_text())
    bits = summary["validation"]["web"]["bits_per_byte"]
    digest = json.loads((run.parent.parent / "tokens" / "web" / "manifest.json").read_text())
    for fact in ("| steps | 12 of 12 |", "| tokens | 384, 32 a step |", f"| `web` | {bits:.4f} |", "| seed | 0 |"):
        assert fact in card
    assert all(shard["sha256"] in card for shard in digest["shards"])
    # Of an earlier checkpoint its own figures, not those of the end; of one that stands alone none.
    assert exported(run / "checkpoints" / "step_00000010", tmp_path / "tenth") == 0
    card = (tmp_path / "tenth" / "README.md").read_text()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    [tenth] = [line["validation"]["web"]["loss"] for line in lines if line["step"] == 10 and "validation" in line]
    assert "| steps | 10 of 12 |" in card
    assert f"| {tenth:.4f} |" in card
    shutil.copytree(run / "checkpoints" / "step_00000010", tmp_path / "alone" / "step_00000010")
    alone = (
        tmp_path / "alone" / "step_00000010",
        tmp_path / "alone_hf",
        "--tokenizer",
        run.parent.parent / "tokenizer",
    )
    assert exported(*alone) == 0
    assert "Not measured at this step." in (tmp_path / "alone_hf" / "README.md").read_text()


def test_bfloat16_is_the_same_model_rounded(run, tmp_path):
    assert exported(run, tmp_path / "full") == 0
    assert exported(run, tmp_path / "half", "--dtype", "bfloat16") == 0
    full, half = (load_file(tmp_path / name / "model.safetensors") for name in ("full", "half"))
    assert all(torch.equal(half[name], one.bfloat16()) for name, one in full.items())
    assert {one.dtype for one in half.values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "half" / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_an_earlier_export_is_replaced_and_nothing_else(run, tmp_path, capsys):
    target = tmp_path / "hf"
    target.mkdir()
    assert exported(run / "checkpoints" / "step_00000010", target) == 0  # an empty folder is free
    first = (target / "model.safetensors").read_bytes()
    assert exported(run, target) == 0
    assert (target / "model.safetensors").read_bytes() != first
    (target / "notes.txt").write_text("mine")
    assert exported(run, target) == 2
    assert (
        "holds other files (README.md, config.json, export.json, generation_config.json, ...)"
        in capsys.readouterr().err
    )
    (tmp_path / "file").write_text("mine")
    assert exported(run, tmp_path / "file") == 2
    corpus = tmp_path / "corpus"  # `curate export` writes a file of this name too
    corpus.mkdir()
    (corpus / "export.json").write_text('{"format": "hf", "files": {}}')
    assert exported(run, corpus) == 2
    assert [path.name for path in corpus.iterdir()] == ["export.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "file", "hf"]


def test_an_export_that_fails_leaves_the_earlier_one(run, tmp_path, monkeypatch, capsys):
    assert exported(run / "checkpoints" / "step_00000010", tmp_path / "hf") == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "hf").iterdir()}

    def full(path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(export, "sync", full)
    assert exported(run, tmp_path / "hf") == 1
    assert "hf: cannot be written (" in (err := capsys.readouterr().err)
    assert "No space left on device" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "hf").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_a_disk_that_is_full_under_the_weights_is_one_line(run, tmp_path, monkeypatch, capsys):
    def full(tensors, path, **keywords):
        path.write_bytes(b"half")
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    assert exported(run, tmp_path / "hf") == 1
    assert "hf.tmp: Error while serializing: I/O error: No space left" in (err := capsys.readouterr().err)
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def damage(path):
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_damage_is_named_and_the_one_before_taken(copy, tmp_path, capsys):
    checkpoints = copy / "checkpoints"
    damage(checkpoints / "step_00000012" / "model.safetensors")
    assert exported(copy, tmp_path / "hf") == 0
    err = capsys.readouterr().err
    assert "step_00000012/model.safetensors: its sha256 is not" in err
    assert "hf: step_00000010," in err
    assert exported(checkpoints / "step_00000012", tmp_path / "other") == 1
    assert "Take another checkpoint of this run" in capsys.readouterr().err
    damage(checkpoints / "step_00000010" / "model.safetensors")
    assert exported(copy, tmp_path / "other") == 1
    assert "all its checkpoints are damaged" in capsys.readouterr().err
    assert exported(tmp_path / "absent", tmp_path / "other") == 1
    assert "absent: holds no checkpoint" in capsys.readouterr().err
    assert exported(copy.parent.parent, tmp_path / "other") == 1  # the folder of the whole run
    assert f"Name the folder of a run, such as {copy}." in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_tokenizer_must_be_the_models_own(copy, tmp_path, capsys):
    own = copy.parent.parent / "tokenizer"
    text = (own / "tokenizer.json").read_text()
    (own / "tokenizer.json").write_text(text + "\n")  # another file
    assert exported(copy, tmp_path / "hf") == 1
    err = capsys.readouterr().err
    assert f"Not it: {own}" in err
    assert "--tokenizer" in err
    assert exported(copy, tmp_path / "hf", "--tokenizer", own) == 1
    assert "is not the tokenizer of" in capsys.readouterr().err
    shutil.rmtree(own)
    assert exported(copy, tmp_path / "hf") == 1
    assert "There is none" in capsys.readouterr().err
    assert exported(copy, tmp_path / "hf", "--tokenizer", own) == 1
    err = capsys.readouterr().err
    assert f"{own}: cannot be read (No such file or directory). Give --tokenizer the run's folder" in err
    assert "recipe" not in err
    write_tokenizer(tmp_path / "elsewhere")
    assert exported(copy, tmp_path / "hf", "--tokenizer", tmp_path / "elsewhere" / "tokenizer.json") == 0


def rewritten(run, *, weights=None, **identity):
    """Write the newest checkpoint anew, whole and with good digests, but with other content."""
    found = checkpoint.find(run, warn=pytest.fail)
    state = {name: value for name, value in found.state.items() if name != "step"}
    state["identity"] = {**state["identity"], **identity}
    tensors = {"model": {**found.tensors["model"], **(weights or {})}}
    return checkpoint.save(run / "other", 12, tensors=tensors, state=state, keep_last=1)


def test_the_card_tells_of_masks_and_of_tuning(copy, tmp_path):
    for identity, fact in (
        ({"document_mask": False}, "| document masking | no: a token saw all"),
        ({"document_mask": True}, "| document masking | yes: a token saw its own document only"),
        ({"tuning": "sft", "start_step": 500}, "| tuned | `sft`, from step 500 of its pretraining |"),
    ):
        assert exported(rewritten(copy, **identity), tmp_path / "hf") == 0
        card = (tmp_path / "hf" / "README.md").read_text()
        assert fact in card
        assert ("| tokens |" in card) == ("tuning" not in identity)
        shutil.rmtree(copy / "other")


def test_a_model_tuned_on_chats_has_their_template(copy, tmp_path):
    assert exported(copy, tmp_path / "plain") == 0
    assert not (tmp_path / "plain" / "chat_template.jinja").exists()
    assert exported(rewritten(copy, tuning="sft", start_step=12, template="chat"), tmp_path / "hf") == 0
    text = (tmp_path / "hf" / "chat_template.jinja").read_text()
    messages = [
        {"role": "system", "content": "Be the cat."},
        {"role": "user", "content": "é?\n"},
        {"role": "assistant", "content": "Meow, the!"},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "No."},
    ]
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(text)  # as transformers opens it
    marks = {"bos_token": MARK, "eos_token": MARK}
    rendered = template.render(messages=messages, add_generation_prompt=False, **marks)
    assert rendered == (
        f"{MARK}System: Be the cat.\n\nUser: é?\n\n\nAssistant: Meow, the!{MARK}User: And?\n\nAssistant: No.{MARK}"
    )
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    [example] = read_examples(
        {"rows": tmp_path / "rows.jsonl"}, load_tokenizer(copy.parent.parent / "tokenizer"), pairs=False, template="chat",
        context=200, seed=0, max_skipped=0.0,
    ).examples  # fmt: skip
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "hf" / "tokenizer.json"))
    assert library.encode(rendered).ids == example.rows[0].tokens.tolist()
    asked = template.render(messages=messages[:2], add_generation_prompt=True, **marks)
    assert asked == f"{MARK}System: Be the cat.\n\nUser: é?\n\n\nAssistant:"


def test_weights_of_another_shape_are_refused(copy, tmp_path, capsys):
    assert exported(rewritten(copy, ffn_dim=48), tmp_path / "hf") == 1
    err = capsys.readouterr().err
    assert "model.safetensors: blocks.0.mlp.down.weight is of shape (16, 32), by the settings in state.json" in err
    assert "of shape (16, 48)" in err
    shutil.rmtree(copy / "other")
    assert exported(rewritten(copy, weights={"extra": torch.zeros(1)}), tmp_path / "hf") == 1
    assert "extra is of shape (1,), by the settings in state.json it is absent" in capsys.readouterr().err
    shutil.rmtree(copy / "other")
    path = rewritten(copy)
    body = json.loads((path / "state.json").read_text())
    del body["sha256"], body["state"]["identity"]["tokenizer_sha256"]
    (path / "state.json").write_text(json.dumps(body | {"sha256": checkpoint._body_digest(body)}))
    assert exported(path, tmp_path / "hf") == 1
    assert "does not say what model this is (KeyError('tokenizer_sha256'))" in capsys.readouterr().err
