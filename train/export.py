"""A checkpoint in the layout of Hugging Face's transformers, which other libraries read too; written without it.

    DIR/
      config.json, generation_config.json   LlamaForCausalLM, or Qwen3ForCausalLM if queries and keys are normalised
      model.safetensors                      the same weights under its names; logits are equal
      tokenizer.json and its settings        ids are those of the shards
      README.md, export.json                 what the model is, for readers and for programs

Rows of embedding and head that only pad the vocabulary are left out: no logit of a real id changes, and none is there that
`generate` could pick by mistake.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from curate.tokens.transformers_files import TransformersError, write_transformers_tokenizer
from train import metrics
from train.checkpoint import sync, write_json
from train.config import ConfigError, Settings, TrainError
from train.trained import Trained, open_trained
from train.tuning.examples import CHAT_TEMPLATE

MANIFEST = "export.json"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def export(folder: Path, output: Path, *, tokenizer: Path | None, dtype: str) -> int:
    """Write a checkpoint as a folder that `transformers` opens: whole or not at all; return the exit code.

    Args:
        folder: Of a checkpoint or of a run.
        output: New, empty, or an earlier export of a model, which is replaced.
        tokenizer: As for `open_trained`.
        dtype: Of the weights: float32 or bfloat16.

    Raises:
        ConfigError: If the output holds anything else.
        TrainError: If the checkpoint or its tokenizer cannot be used.
    """
    _check_output(output)
    trained = open_trained(folder, tokenizer, warn=metrics.say)
    temporary = output.with_name(output.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        parameters = _write(trained, temporary, dtype)
        _put(temporary, output)
    except (OSError, safetensors.SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        place, problem = getattr(error, "filename", None), getattr(error, "strerror", None)
        raise TrainError(
            f"--output {output}: cannot be written ({place or temporary}: {problem or error}). What was there "
            "is as it was; make room, or name another folder."
        ) from error
    metrics.say(f"{output}: {trained.path.name}, {parameters:,} parameters in {dtype}")
    return 0


def _write(trained: Trained, folder: Path, dtype: str) -> int:
    """Write all files, on disk when it returns, into a new folder; return the number of parameters."""
    folder.mkdir(parents=True)
    tensors = transformers_tensors(trained.weights, trained.settings, trained.vocab_size)
    tensors = {name: tensor.to(_DTYPES[dtype], copy=True) for name, tensor in tensors.items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    marks = {"bos_token_id": trained.start_ids[-1], "eos_token_id": trained.tokenizer.eos_id}
    config = transformers_config(trained.settings, trained.vocab_size)
    write_json(folder / "config.json", config | marks | {"torch_dtype": dtype})
    write_json(folder / "generation_config.json", marks | {"pad_token_id": trained.tokenizer.eos_id})
    _write_tokenizer(trained, folder)
    (folder / "README.md").write_text(_card(trained, dtype), encoding="utf-8")
    shutil.copymode(folder / "config.json", folder / "model.safetensors")  # the library's files are the owner's alone
    source = {"step": trained.step, "identity": dict(trained.identity), "data": trained.state["data"]}
    files = {path.name: _digest(path) for path in sorted(folder.iterdir())}
    write_json(folder / MANIFEST, {"kind": "model", "dtype": dtype, **source, "files": files})
    for path in folder.iterdir():
        sync(path)
    sync(folder)
    return sum(tensor.numel() for tensor in tensors.values())


def transformers_config(settings: Settings, vocab_size: int) -> dict[str, Any]:
    """Return config.json without the ids of marks."""
    config = {
        "vocab_size": vocab_size,
        "hidden_size": settings.dim,
        "intermediate_size": settings.ffn_dim,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "num_key_value_heads": settings.kv_heads,
        "head_dim": settings.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": settings.context,
        "rms_norm_eps": settings.norm_eps,
        "rope_theta": settings.rope_base,
        "tie_word_embeddings": settings.tied,
        "attention_bias": False,
    }
    if settings.qk_norm:
        kind = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
        return (
            kind | config | {"use_sliding_window": False, "sliding_window": None, "max_window_layers": settings.layers}
        )
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama"} | config | {"mlp_bias": False}


def transformers_tensors(weights: Mapping[str, Tensor], settings: Settings, vocab_size: int) -> dict[str, Tensor]:
    """Return a decoder's weights under the names of transformers' Llama and Qwen3, without padding rows.

    Args:
        weights: By the names of `Decoder`.
        settings: Its shape.
        vocab_size: Ids of the tokenizer.
    """
    renamed = {
        "attention_norm.weight": "input_layernorm.weight",
        "attention.out.weight": "self_attn.o_proj.weight",
        "attention.query_norm.weight": "self_attn.q_norm.weight",
        "attention.key_norm.weight": "self_attn.k_norm.weight",
        "mlp_norm.weight": "post_attention_layernorm.weight",
        "mlp.down.weight": "mlp.down_proj.weight",
    }
    rows = {
        "attention.qkv.weight": {
            "self_attn.q_proj.weight": settings.heads * settings.head_dim,
            "self_attn.k_proj.weight": settings.kv_heads * settings.head_dim,
            "self_attn.v_proj.weight": settings.kv_heads * settings.head_dim,
        },
        "mlp.gate_up.weight": {"mlp.gate_proj.weight": settings.ffn_dim, "mlp.up_proj.weight": settings.ffn_dim},
    }
    tensors = {
        "model.embed_tokens.weight": weights["embedding.weight"][:vocab_size],
        "model.norm.weight": weights["norm.weight"],
    }
    if not settings.tied:
        tensors["lm_head.weight"] = weights["head.weight"][:vocab_size]
    for name, weight in weights.items():
        block, _, part = name.removeprefix("blocks.").partition(".")
        if not name.startswith("blocks."):
            continue
        if part in renamed:
            tensors[f"model.layers.{block}.{renamed[part]}"] = weight
        else:
            pieces = zip(rows[part], torch.split(weight, list(rows[part].values())), strict=True)
            tensors |= {f"model.layers.{block}.{piece}": tensor for piece, tensor in pieces}
    return tensors


def _check_output(output: Path) -> None:
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise ConfigError(f"--output {output}: is not a folder. Name another.")
    if not output.name:
        raise ConfigError(f"--output {output}: name a folder.")
    present = {path.name for path in output.iterdir()} if output.is_dir() else set()
    if present and not _is_export(output, present):
        shown = ", ".join(sorted(present)[:4]) + (", ..." if len(present) > 4 else "")
        raise ConfigError(f"--output {output}: holds other files ({shown}). Name a new folder, or empty this one.")


def _is_export(folder: Path, present: set[str]) -> bool:
    try:
        written = json.loads((folder / MANIFEST).read_bytes())
        return written["kind"] == "model" and {*written["files"], MANIFEST} == present
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _put(temporary: Path, output: Path) -> None:
    """Give the finished folder its name; an earlier export stands aside until then."""
    old = output.with_name(output.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if output.exists():
        output.rename(old)
    temporary.rename(output)
    sync(output.parent)
    shutil.rmtree(old, ignore_errors=True)


def _write_tokenizer(trained: Trained, folder: Path) -> None:
    """Write the tokenizer; ids are those of the shards, and a begin mark is named, which is not put before a text unasked.

    A model whose documents begin without a mark has seen them begin behind the end mark of another. One that was tuned on
    chats has their template.
    """
    tokenizer = trained.tokenizer
    try:
        write_transformers_tokenizer(tokenizer, folder)
    except TransformersError as error:
        raise TrainError(f"{error} Without it a model is of no use in transformers; nothing was written.") from error
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        written = json.loads((folder / name).read_bytes())
        write_json(folder / name, {"bos_token": tokenizer.eos} | written)
    if trained.identity.get("template") == "chat":
        begin = "bos_token" if tokenizer.bos is None else "eos_token + bos_token"
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE.replace("{{ begin }}", f"{{{{ {begin} }}}}", 1))


def _card(trained: Trained, dtype: str) -> str:
    identity, state, settings = trained.identity, trained.state, trained.settings
    kind = "Qwen3ForCausalLM" if settings.qk_norm else "LlamaForCausalLM"
    facts = {
        "preset": f"`{identity['preset']}`",
        "seed": identity["seed"],
        "steps": f"{trained.step:,} of {identity['steps']:,}",
        **_training(trained),
        "parameters": f"{settings.parameters(trained.vocab_size):,} in {dtype}",
        "context": f"{settings.context:,} tokens",
        "vocabulary": f"{trained.vocab_size:,}",
        "peak learning rate": f"{settings.lr:g}, schedule `{settings.schedule}`",
        "computed": f"in {identity['precision']} on {identity['device']}",
    }
    lines = [
        "---", "library_name: transformers", "pipeline_tag: text-generation", "tags: [curate]", "---",
        f"# {identity['preset']}, seed {identity['seed']}, step {trained.step}", "",
        f"A small language model, trained to compare training data. Architecture: `{kind}`.", "",
        "| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items()), "",
        "In training a document stands behind the end mark of another. `tokenizer.bos_token` is what a document begins after;",
        "ask for it (`add_bos_token=True`) to score or continue a text as the beginning of a document.", "",
        "## Validation", "", *_validation(trained), "",
        "## Data", "", "What it was trained and validated on, and the order of training, by sha256:", "",
        "| file | sha256 |", "| --- | --- |", *(f"| `{name}` | `{sha}` |" for name, sha in state["data"].items()), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _training(trained: Trained) -> dict[str, str]:
    identity, settings = trained.identity, trained.settings
    if "tuning" in identity:  # its steps are of examples, however long
        return {"tuned": f"`{identity['tuning']}`, from step {identity['start_step']:,} of its pretraining"}
    masked = "yes: a token saw its own document only; transformers does not know that, so give it one document a row"
    open_to_all = "no: a token saw all that stood before it in its window, also of other documents"
    return {
        "tokens": f"{trained.step * settings.batch_tokens:,}, {settings.batch_tokens:,} a step",
        "document masking": masked if settings.document_mask else open_to_all,
    }


def _validation(trained: Trained) -> list[str]:
    """Return the run's own figures at this step, from the metrics.jsonl beside its checkpoints."""
    try:
        _, lines = metrics.read(trained.path.parent.parent / "metrics.jsonl")
    except (OSError, ValueError):
        lines = []
    found = [line["validation"] for line in lines if line["step"] == trained.step]
    if not found:
        return ["Not measured at this step."]
    figures = [
        name for name in ("bits_per_byte", "loss", "perplexity") if all(name in one for one in found[-1].values())
    ]
    return [
        f"| | {' | '.join(name.replace('_', ' ') for name in figures)} |",
        f"| --- |{' ---: |' * len(figures)}",
        *(
            f"| `{source}` | {' | '.join(f'{scores[name]:.4f}' for name in figures)} |"
            for source, scores in found[-1].items()
        ),
        *([] if "tuning" in trained.identity else ["", "Loss in nats per token, end marks included."]),
    ]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
