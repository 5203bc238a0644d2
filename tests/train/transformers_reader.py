"""What transformers makes of exported models; run by a Python that has it: JOB.json says what to read and is answered there.

python transformers_reader.py JOB.json
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.logits_process import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


@torch.no_grad()
def read(folder: Path, job: dict) -> dict:
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = load_file(job["inputs"])["ids"]
    save_file({"logits": model(ids).logits.float()}, folder / "logits.safetensors")
    beginning = AutoTokenizer.from_pretrained(folder, add_bos_token=True)
    prompt = beginning(job["prompt"], return_tensors="pt")
    generated = model.generate(**prompt, max_new_tokens=job["max_tokens"], do_sample=False)[0]
    return {
        "class": type(model).__name__,
        "dtype": str(model.dtype),
        "ids": [tokenizer(text)["input_ids"] for text in job["texts"]],
        "prompt": prompt["input_ids"][0].tolist(),
        "generated": generated[prompt["input_ids"].shape[1] :].tolist(),
    }


def filtered(job: dict) -> None:
    """Apply transformers' own filters, in its order, to the logits of the job."""
    given = load_file(job["inputs"])
    scores = RepetitionPenaltyLogitsProcessor(job["repetition_penalty"])(given["used"], given["logits"])
    for warper in (
        TemperatureLogitsWarper(job["temperature"]),
        TopKLogitsWarper(job["top_k"]),
        TopPLogitsWarper(job["top_p"]),
    ):
        scores = warper(given["used"], scores)
    save_file({"probabilities": scores.softmax(-1)}, job["probabilities"])


if __name__ == "__main__":
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    filtered(job)
    path.write_text(json.dumps({folder: read(Path(folder), job) for folder in job["folders"]}))
