"""The command line: `python -m train run CONFIG`."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import platform
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from train import config as configuration
from train.tuning.config import DpoSettings, SftSettings, TuningConfig, describe

_RUN = """\
Trains the model of CONFIG, a JSON file:

  {"preset": "demo-1m", "seed": 0, "tokens": "../../tokens", "mixture": "../../mixture.json", "output": ".",
   "overrides": {"lr": 0.002, "eval_every": 100}}

Paths are relative to CONFIG. `seed` is 0 and `output` the folder of CONFIG unless given. `tokens` holds a folder of token shards
for each source that `mixture` names. `answers`, if there,
names a Parquet file of prompts and gold answers, whose bits per byte are measured with the validation sets. `tasks` names one of
questions with several answers: accuracy, centred on chance, and bits per byte of the gold answer, measured at the end.
`overrides` may hold every setting that `python -m train presets NAME` shows; `python -m train presets --help` explains them.

It goes on from the newest checkpoint in the output, bit for bit on the CPU; a finished run is left as it is.

A validation document is scored by itself, so its nats do not depend on the others. `macro_bits_per_byte` is the mean over
sources of the mean over their domains; a domain of fewer than 5 documents or 1% of the bytes is part of `other`, which
counts if it is larger than that.

Written to the output:
  resolved.json   every setting, with `auto` resolved      metrics.jsonl   losses; the same for every run of this config
  checkpoints/    weights, optimizer, state; verified      timings.jsonl   speed and memory
  summary.json    final figures, written last              answers.json    each gold answer, at the end
  task_items.parquet  each item of the tasks, at the end
  validation.parquet  each validation document at the end: source, id, domain, language, tokens, bytes, nats

Exit codes: 0 done; 1 failed; 2 the config is wrong; 85 saved after SIGTERM, SIGUSR1 or max_minutes: start again to go on;
130 Ctrl-C, saved.

Several GPUs, or processes on the CPU:

  torchrun --standalone --nproc_per_node=2 -m train run CONFIG

The override `parallel` says whether each holds the model whole (ddp) or a part of it (fsdp). Losses are those of one process but
for rounding, and any number of processes goes on from any checkpoint. torchrun itself returns 1 for every code but 0, and
names the code that the processes returned; it kills what has not saved 30 seconds after a SIGTERM.
"""
_CHECK = """\
Does what `run` does before its first step: reads CONFIG, opens tokens, mixture, answers and tasks, and looks at device, memory
and output. Prints what would be trained. Not read is the content of the shards, which `run` compares with their digests.
Nothing is trained or left in the output. Exit codes as in `run`.
"""
_RANGE = """\
Trains the model of CONFIG for N steps while the learning rate grows from --low to --high (Smith 2017, arXiv:1506.01186), and
names the regimes: too low (the loss does not fall), good, too high (it falls no further, and rises), diverged. Suggests a rate
and says where that of CONFIG lies. Writes lr_range.json to the output; no checkpoint is read or written.
"""
_SAMPLE = """\
Prints a text and how the model of CHECKPOINT goes on, to the end of the document or --tokens further. Only text goes to
standard output; notes go to standard error. The same seed gives the same text, on the CPU to the last character.

The prompt is taken as it stands: a tuned model gets no template either. One that was tuned with `template: chat` (the default of
sft and dpo) is asked in the form that it learned; nothing stands behind the colon, the answer begins with its space:

  python -m train sample RUN --prompt $'User: What is 2 + 2?\\n\\nAssistant:'

A system message comes before, as $'System: Be brief.\\n\\nUser: ...'. After `template: none` the prompt is the row's prompt.
"""
_LADDER = """\
Trains sizes one after another, each on `multiple` times its parameters in tokens, and fits loss = E + A C^-alpha over the
training FLOPs C (Hoffmann et al. 2022, arXiv:2203.15556). CONFIG, a JSON file:

  {"sizes": ["15m", {"layers": 6, "dim": 256, "heads": 4}], "multiple": 20, "count": "all", "seeds": [0, 1],
   "tokens": "tokens", "mixture": "mixture.json", "output": "ladder", "overrides": {"eval_every": 1000}}

A size is a preset, or a shape: `layers`, `dim` and `heads`, and if you like `kv_heads` (otherwise as `heads`), `context` (2048),
`micro_batch` (16); rate, batch, warm-up and MLP follow from it. `overrides` holds for all sizes, and goes before what follows.
`count` says which parameters: all, or those of the trunk. Each run is a folder OUTPUT/SIZE/SEED of `python -m train run` on the
first tokens of the mixture; what is complete is not trained again. Writes OUTPUT/ladder.json and prints its table. With fewer
than four sizes E is 0. Intervals are 95 %, by parametric bootstrap; one that is no use says "cannot tell". Sizes of fewer than 50
steps are named: their losses mean nothing.
"""
_EXPORT = """\
Writes a trained model as a folder that transformers and lm-evaluation-harness open; others read this form as well:

  AutoModelForCausalLM.from_pretrained(DIR)      LlamaForCausalLM, or Qwen3ForCausalLM with qk_norm; equal logits
  AutoTokenizer.from_pretrained(DIR)             ids as in the shards; add_bos_token=True begins a document
"""
_EXAMPLES = """\
examples:
  python -m train presets demo-1m                     every setting of a preset
  python -m train check runs/web/train/0/config.json  can this config run?
  python -m train run runs/web/train/0/config.json    train, or go on from the newest checkpoint
  python -m train ladder ladder.json --predict 1b     a power law over sizes, and what it says of a larger one

`python -m train COMMAND --help` explains each.
"""
_LARGE = str(1 << 34)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code.

    Args:
        arguments: Instead of the process's own; then the process is not started anew for its environment.
    """
    parser = argparse.ArgumentParser(
        prog="python -m train",
        description="Trains small language models on token shards, to compare the data.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run", help="train a model", description=_RUN, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    run.add_argument("config", type=Path, metavar="CONFIG", help="config.json of the run")
    checked = commands.add_parser(
        "check",
        help="say whether a config can run, and what it would train",
        description=_CHECK,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    checked.add_argument("config", type=Path, metavar="CONFIG", help="config.json of a run")
    checked.add_argument(
        "--settings-only", action="store_true", help="look at CONFIG alone: its data need not be there yet"
    )
    ranged = commands.add_parser(
        "lr-range",
        help="say which learning rates are too low, good and too high",
        description=_RANGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ranged.add_argument("config", type=Path, metavar="CONFIG", help="config.json of a run")
    ranged.add_argument("--low", type=float, default=1e-6, metavar="RATE", help="first rate (default: 1e-6)")
    ranged.add_argument("--high", type=float, default=1.0, metavar="RATE", help="last rate (default: 1)")
    ranged.add_argument("--steps", type=int, default=200, metavar="N", help="steps in between (default: 200)")
    laddered = commands.add_parser(
        "ladder", help="train several sizes and fit a power law", description=_LADDER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    laddered.add_argument("config", type=Path, metavar="CONFIG", help="config of the ladder")
    laddered.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (default: 1)")
    laddered.add_argument("--predict", choices=list(configuration.PRESETS), metavar="NAME", help="preset to predict")
    presets = commands.add_parser(
        "presets",
        help="list the presets, or show one with all settings",
        description=_explained(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    presets.add_argument(
        "name", nargs="?", choices=list(configuration.PRESETS), metavar="NAME", help="the preset to show"
    )
    for kind in (SftSettings, DpoSettings):
        tuned = commands.add_parser(
            kind.name,
            help=kind.purpose,
            description=describe(kind),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        tuned.add_argument("config", type=Path, metavar="CONFIG", help="config.json of the run")
        tuned.set_defaults(tuning=kind)
    sampled = commands.add_parser(
        "sample", help="continue a prompt", description=_SAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_checkpoint(sampled)
    sampled.add_argument(
        "--prompt", default="", metavar="TEXT", help="begins the document; - reads it from standard input"
    )
    sampled.add_argument("--tokens", type=int, default=200, metavar="N", help="longest continuation (200)")
    sampled.add_argument("--num", type=int, default=1, metavar="N", help="samples (1)")
    sampled.add_argument("--seed", type=int, default=0, metavar="N", help="of the first sample, then one more each (0)")
    sampled.add_argument(
        "--temperature", type=float, default=1.0, metavar="T", help="0: always the likeliest token (1)"
    )
    sampled.add_argument("--top-k", type=int, metavar="K", help="only the K likeliest tokens")
    sampled.add_argument("--top-p", type=float, default=1.0, metavar="P", help="only the fewest with probability P (1)")
    sampled.add_argument(
        "--repetition-penalty", type=float, default=1.0, metavar="R", help="for tokens already used (1)"
    )
    sampled.add_argument("--json", action="store_true", help="a JSON object for each sample, one a line")
    exported = commands.add_parser(
        "export", help="write a model for transformers", description=_EXPORT, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    _add_checkpoint(exported)
    exported.add_argument("--output", type=Path, required=True, metavar="DIR", help="new, empty, or an earlier export")
    exported.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the weights")
    options = parser.parse_args(arguments)
    try:
        if options.command == "run":
            run_config = configuration.load(options.config)
            if arguments is None:
                _set_environment(run_config.settings.threads)
            _end_with_parent()
            from train import loop  # loads torch, which reads the environment

            return loop.run(run_config)
        if "tuning" in options:
            tuning_config = TuningConfig.load(options.config, options.tuning)
            if arguments is None:
                _set_environment(tuning_config.settings.threads)
            _end_with_parent()
            from train.tuning import loop as tuning_loop

            return tuning_loop.run(tuning_config)
        if options.command == "lr-range":
            range_config = configuration.load(options.config)
            if arguments is None:
                _set_environment(range_config.settings.threads)
            from train import range_check

            range_check.check(range_config, low=options.low, high=options.high, steps=options.steps)
            return 0
        if options.command == "ladder":
            from train import ladder

            return ladder.run(ladder.load(options.config), jobs=max(1, options.jobs), predict=options.predict)
        if options.command == "check":
            checked_config = configuration.load(options.config)
            if options.settings_only:
                from train import loggers

                loggers.check(checked_config.settings.loggers)
                print("keys and settings are right; data, device and output were not looked at")
                return 0
            if arguments is None:
                _set_environment(checked_config.settings.threads)
            from train import job

            print(f"{job.checked(checked_config)}\nthis config can run")
            return 0
        if options.command == "presets":
            print(_presets(options.name))
            return 0
        if options.command == "export":
            from train.export import export

            return export(options.checkpoint, options.output, tokenizer=options.tokenizer, dtype=options.dtype)
        from train.sample import Sampling, sample

        sampling = Sampling(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=options.repetition_penalty,
        )
        return sample(
            options.checkpoint, tokenizer=options.tokenizer, prompt=options.prompt, sampling=sampling, seed=options.seed,
            num=options.num, max_tokens=options.tokens, as_json=options.json,
        )  # fmt: skip
    except KeyboardInterrupt:
        print("interrupted; the last checkpoint stays", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads what is printed has had enough
        sys.stderr.close()
        return 1
    except Exception as error:
        code = getattr(error, "exit_code", None)  # every error that a user can act on has one
        if code is None:
            raise
        print(error, file=sys.stderr)
        return int(code)


def _add_checkpoint(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "checkpoint", type=Path, metavar="CHECKPOINT", help="folder of a checkpoint, or of a run: its newest good one"
    )
    command.add_argument(
        "--tokenizer",
        type=Path,
        metavar="PATH",
        help="its tokenizer, or the folder of it; default: `tokenizer` in the run folder",
    )


def environment(threads: int) -> dict[str, str]:
    """Return the environment that torch must find when it is loaded.

    The thread count is the preset's, not the machine's. Waiting threads sleep: spinning ones slow a shared machine down to
    a sixth. glibc keeps freed memory instead of giving it back after each step, which is 11 to 27 % of a step on the CPU.
    """
    wanted = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    if platform.libc_ver()[0] == "glibc":
        wanted |= {"MALLOC_MMAP_THRESHOLD_": _LARGE, "MALLOC_TRIM_THRESHOLD_": _LARGE}
    return wanted


def _set_environment(threads: int) -> None:
    """Start this process anew (same id) unless the environment is right: libraries read it only while they load."""
    wanted = environment(threads)
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _end_with_parent() -> None:
    """End when torchrun, or the process in TRAIN_PARENT, is gone: who starts trainers and is killed must not leave them behind.

    The last checkpoint stays; a run that is started again would otherwise find the folder in use.
    """
    parent = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else os.environ.get("TRAIN_PARENT")
    if not parent:
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _explained() -> str:
    _, _, attributes = inspect.cleandoc(configuration.Settings.__doc__ or "").partition("Attributes:\n")
    return f"Every setting of a preset, which `overrides` of a config may change:\n\n{textwrap.dedent(attributes)}"


def _presets(name: str | None) -> str:
    if name is not None:
        return json.dumps(dataclasses.asdict(configuration.PRESETS[name]), indent=1)
    lines = ["preset   trunk parameters  layers   dim  context  tokens/step        lr"]
    for preset, settings in configuration.PRESETS.items():
        lines.append(
            f"{preset:<8} {settings.trunk_parameters:>16,}  {settings.layers:>6} {settings.dim:>5}  {settings.context:>7}  "
            f"{settings.batch_tokens:>11,}  {settings.lr:>8.2e}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
