"""Exported models read by transformers and lm-evaluation-harness, where there is a Python that has them.

CURATE_TRAIN_PEERS names it: a Python with what the extra `eval` installs. Nothing here needs a network.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from trained_run import LETTERS, trained_run

from curate.tokens.tasks import BY_BYTES, BY_SUM, TaskItem
from train import scoring, tasks
from train.__main__ import main
from train.sample import Sampling, generate
from train.trained import open_trained

PEERS = os.environ.get("CURATE_TRAIN_PEERS", "")
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
SHAPES = [(True, 1, False), (False, 2, False), (True, 2, True), (False, 1, True)]  # tied, kv_heads of 2, qk_norm
TEXTS = ["the cat", "é  the\n\n\tThe", "", " a <|end|", "x" * 40]

pytestmark = pytest.mark.slow


def peers(*command, folder):
    """Run the peers' Python, or skip loudly."""
    if not PEERS:
        pytest.skip(
            "EXPORTED MODELS NOT READ BY TRANSFORMERS AND LM-EVAL: CURATE_TRAIN_PEERS names no Python that has them"
        )
    environment = {**os.environ, **OFFLINE, "HF_HOME": str(folder / "hf_home")}
    done = subprocess.run(
        [PEERS, *map(str, command)], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done


def exported(root, *more, **overrides):
    """Train a model whose logits differ widely, and export it; return the model and the folder."""
    run = trained_run(root, spread=0.2, layers=2, lr=1e-6, **overrides)
    assert main(["export", str(run), "--output", str(root / "hf"), *more]) == 0
    return open_trained(run, None, warn=pytest.fail), root / "hf"


def test_transformers_computes_what_the_trainer_computes(tmp_path):
    models = {}
    for number, (tied, kv_heads, qk_norm) in enumerate(SHAPES):
        shape = {"tied": tied, "kv_heads": kv_heads, "qk_norm": qk_norm, "context": 32}
        trained, folder = exported(tmp_path / str(number), **shape)
        models[str(folder)] = trained
    rounded, folder = exported(tmp_path / "half", "--dtype", "bfloat16", context=32)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 260, (3, 32), generator=generator)
    logits, used = torch.randn(16, 50, generator=generator) * 3, torch.randint(0, 50, (16, 9), generator=generator)
    save_file({"ids": ids, "logits": logits, "used": used}, tmp_path / "inputs.safetensors")
    options = {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.3}
    job = {
        "folders": [*models, str(folder)], "inputs": str(tmp_path / "inputs.safetensors"), "texts": TEXTS, "prompt": "the cat",
        "max_tokens": 20, "probabilities": str(tmp_path / "probabilities.safetensors"), **options,
    }  # fmt: skip
    (tmp_path / "job.json").write_text(json.dumps(job))
    peers(Path(__file__).with_name("transformers_reader.py"), tmp_path / "job.json", folder=tmp_path)
    answers = json.loads((tmp_path / "job.json").read_text())
    for (name, trained), (_, _, qk_norm) in zip(models.items(), SHAPES, strict=True):
        answer = answers[name]
        assert answer["class"] == ("Qwen3ForCausalLM" if qk_norm else "LlamaForCausalLM")
        with torch.no_grad():
            own = trained.decoder().logits(ids)[..., :260]
        difference = (load_file(Path(name) / "logits.safetensors")["logits"] - own).abs().max().item()
        print(f"{name}: largest difference of logits {difference:.2e}, their deviation {own.std():.2f}")
        assert own.std() > 0.5
        assert difference <= 1e-5
        assert answer["ids"] == [trained.tokenizer.encode(text).tolist() for text in TEXTS]
        assert answer["prompt"] == [2, *trained.tokenizer.encode("the cat").tolist()]
        [greedy] = generate(
            trained.decoder(), [2], trained.tokenizer.encode("the cat").tolist(), sampling=Sampling(temperature=0), seeds=[0],
            max_tokens=20, context=32, vocab_size=260, eos_id=2, warn=pytest.fail,
        )  # fmt: skip
        assert answer["generated"] == greedy
    half = answers[str(folder)]
    assert half["dtype"] == "torch.bfloat16"
    with torch.no_grad():
        own = rounded.decoder().logits(ids)[..., :260]
    assert (load_file(folder / "logits.safetensors")["logits"] - own).abs().mean() < 0.05 * own.std()
    mask = torch.zeros(16, 50, dtype=torch.bool).scatter_(1, used, True)
    theirs = load_file(job["probabilities"])["probabilities"].double()
    assert torch.allclose(Sampling(**options).probabilities(logits, mask), theirs, atol=1e-6)


TASK = """\
task: local
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{gold}}}}"
target_delimiter: " "
metric_list: [{{metric: acc}}, {{metric: acc_bytes}}]
"""


def test_the_harness_measures_what_the_trainer_measures(tmp_path):
    trained, folder = exported(tmp_path, context=128, qk_norm=True, letters=LETTERS)
    assert trained.vocab_size == trained.identity["padded_vocab_size"]  # else the two softmaxes differ by the padding
    random = np.random.default_rng(0)
    words = ["the", "cat", "sat", "Ölsand", "on", "them", "7 mats", "é", "quietly", "and"]
    items = [
        {
            "question": "Question: " + " ".join(random.choice(words, 6)) + "?\nAnswer:",
            "choices": [" ".join(random.choice(words, size)) for size in random.integers(1, 5, 4)],
            "gold": int(random.integers(4)),
        }
        for _ in range(24)
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "local.yaml").write_text(TASK.format(file=tmp_path / "items.jsonl"))
    peers(
        "-m", "lm_eval", "run", "--model", "hf", "--model_args", f"pretrained={folder},add_bos_token=True,dtype=float32",
        "--include_path", tmp_path / "tasks", "--tasks", "local", "--device", "cpu", "--batch_size", "4",
        "--output_path", tmp_path / "results", "--log_samples", folder=tmp_path,
    )  # fmt: skip
    [result] = [json.loads(path.read_text()) for path in (tmp_path / "results").rglob("results_*.json")]
    [samples] = [path.read_text().splitlines() for path in (tmp_path / "results").rglob("samples_local_*.jsonl")]
    theirs = {one["doc_id"]: [float(resp[0][0]) for resp in one["resps"]] for one in map(json.loads, samples)}

    encode = trained.tokenizer.encode
    own = [
        TaskItem(
            task="local", version=0, groups=(), metric=BY_SUM, item=str(number),
            prompts=(encode(item["question"]).astype(np.int64),) * 4,
            choices=tuple(encode(" " + choice).astype(np.int64) for choice in item["choices"]),
            num_bytes=tuple(len(choice.encode()) for choice in item["choices"]), gold=item["gold"], chance=0.25,
        )
        for number, item in enumerate(items)
    ]  # fmt: skip
    decoder = trained.decoder()

    def score(rows):
        return scoring.score(
            decoder, decoder.head_weight, rows, batch_size=8, context=128, eos_id=2, whole_batches=False,
            autocast=torch.autocast("cpu", enabled=False),
        )  # fmt: skip

    outcomes = tasks.measure(own, score)
    largest = max(
        abs(nats + likelihood)
        for number, outcome in enumerate(outcomes)
        for nats, likelihood in zip(outcome.nats, theirs[number], strict=True)
    )
    print(f"largest difference of {4 * len(items)} log-likelihoods {largest:.2e}")
    assert largest < 1e-4  # of sums near 100 nats in float32
    assert len(theirs) == len(items)
    found = tasks.scores(own, outcomes)["tasks"]["local"]
    assert 0 < found[BY_SUM] < 1
    assert result["results"]["local"]["acc,none"] == pytest.approx(found[BY_SUM])
    assert result["results"]["local"]["acc_bytes,none"] == pytest.approx(found[BY_BYTES])
