"""A tokenizer whose ids are the UTF-8 bytes of a text, with `<|end|>` as id 256: ids can be written down by hand."""

from __future__ import annotations

import json
from pathlib import Path

END = 256


def byte_letters() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary (Radford et al. 2019, GPT-2's encoder.py)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def write_tokenizer(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    mark = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [mark | {"id": END, "content": "<|end|>", "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {letter: byte for byte, letter in enumerate(byte_letters())}, "merges": []},
    }  # fmt: skip
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content))
    return path
