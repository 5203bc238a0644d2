"""The commands. They parse and call, nothing else; whatever is heavy is imported where it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from curate.errors import CurateError, UsageError
from curate.plan import PHASES

app = typer.Typer(
    help=(
        "Curate pretraining corpora: every document accounted for, recipes compared by training small models.\n\n"
        "Start with: curate run recipes/web_code_books.yaml"
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cache_app = typer.Typer(help="The store of results: list it, free space.", no_args_is_help=True, rich_markup_mode=None)
mixture_app = typer.Typer(help="Plan weights.", no_args_is_help=True, rich_markup_mode=None)
classifier_app = typer.Typer(help="Train or apply a fastText classifier.", no_args_is_help=True, rich_markup_mode=None)
tokenizer_app = typer.Typer(
    help="Train a tokenizer by itself; write one for transformers.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(cache_app, name="cache")
app.add_typer(mixture_app, name="mixture")
app.add_typer(classifier_app, name="classifier")
app.add_typer(tokenizer_app, name="tokenizer")

Phase = Enum("Phase", {name: name for name in PHASES})  # type: ignore[misc]

_LATER = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
}  # commands of later versions take anything, and say so


RecipePath = Annotated[Path, typer.Argument(help="The recipe, a YAML file.", show_default=False)]
RunPath = Annotated[Path, typer.Argument(help="A run folder, such as runs/web_code_books.", show_default=False)]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key, e.g. dedup.minhash.verify=0.8."),
]
AllowCode = Annotated[bool, typer.Option("--allow-code", help="Import steps `module:Class` from the recipe's folder.")]


@app.command()
def run(
    recipe: RecipePath,
    output: Annotated[Path | None, typer.Option(help="Run folder.  [default: runs/<recipe name>]")] = None,
    cache: Annotated[Path | None, typer.Option(help="Store of results.  [default: $XDG_CACHE_HOME/curate]")] = None,
    sets: Sets = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.  [default: number of cores]")] = None,
    memory: Annotated[str, typer.Option(help="Buffers of a whole-corpus phase; never changes the result.")] = "1G",
    executor: Annotated[str, typer.Option(help="local, or ray (not built yet).")] = "local",
    until: Annotated[Phase, typer.Option(help="Last phase to run, inclusive.")] = Phase.report,  # type: ignore[attr-defined]
    limit: Annotated[int | None, typer.Option(help="Documents to read at most from each source.")] = None,
    sample: Annotated[float | None, typer.Option(help="Share of the documents to read, drawn by (seed, id).")] = None,
    tasks: Annotated[str | None, typer.Option(help="Part i/n of the tasks (not built yet).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a document had to be quarantined.")] = False,
    allow_code: AllowCode = False,
    no_train: Annotated[bool, typer.Option("--no-train", help="Leave the training runs out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show warnings only.")] = False,
) -> None:
    """Run a recipe: curate, tokenise, mix, train, report.

    A second run does only what is missing or changed: results are stored by what they depend on. It may be stopped at any
    moment (Ctrl-C, or harder) and started again.

    Exit codes: 0 done; 1 the work failed; 2 the recipe or the command line is wrong; 85 a trainer saved and wants to be
    started again; 130 Ctrl-C.
    """
    if executor == "ray":
        raise UsageError("--executor ray: not built yet. Use --executor local.")
    if executor != "local":
        raise UsageError(f"--executor {executor}: must be local.")
    if tasks is not None:
        raise UsageError("--tasks: not built yet. Use --workers.")
    from curate.runner import run as run_recipe

    try:
        result = run_recipe(
            recipe,
            output=output,
            cache=cache,
            sets=sets or (),
            workers=workers,
            memory=memory,
            until=until.value,
            limit=limit,
            sample=sample,
            strict=strict,
            allow_code=allow_code,
            train=not no_train,
            quiet=quiet,
        )
    except KeyboardInterrupt:
        print("curate: interrupted. What is finished stays; run again to go on.", file=sys.stderr)
        raise typer.Exit(130) from None
    if not quiet:
        kept = sum(source["kept"] for source in result.manifest["ledger"].values())
        read = sum(source["read"] for source in result.manifest["ledger"].values())
        report = result.output / "report.html"
        print(
            f"{read:,} documents read, {kept:,} kept. "
            + (f"Open {report}" if report.exists() else f"See {result.output}")
        )
    if result.exit_code:
        raise typer.Exit(result.exit_code)


@app.command()
def check(recipe: RecipePath, sets: Sets = None, allow_code: AllowCode = False) -> None:
    """Validate a recipe; print the plan, the resolved recipe and an estimate. Touches nothing."""
    from curate.runner import check as check_recipe
    from curate.runner import describe

    print(describe(check_recipe(recipe, sets=sets or (), allow_code=allow_code)))


@app.command()
def inspect(
    run: RunPath,
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    stage: Annotated[
        str | None, typer.Option(help="Only this stage: read, gate, extract, filter, ..., or kept.")
    ] = None,
    rule: Annotated[str | None, typer.Option(help="Only this rule, e.g. gopher_quality.num_words.")] = None,
    sample: Annotated[int, typer.Option(help="How many documents.")] = 5,
) -> None:
    """Read samples of what was kept or removed, and why."""
    from curate.report.inspect import inspect as inspect_run
    from curate.report.inspect import inspect_lines

    for line in inspect_lines(inspect_run(run, source=source, stage=stage, rule=rule, sample=sample)):
        print(line)


@app.command()
def trace(
    run: RunPath, key: Annotated[str, typer.Argument(metavar="ID|URL", help="Id (or its beginning), source id or URL.")]
) -> None:
    """Show the life of one document, from input byte to position in training."""
    from curate.report.trace import trace_text

    print(trace_text(run, key))


@app.command("what-if")
def what_if(
    run: RunPath,
    sets: Sets = None,
    sample: Annotated[int, typer.Option(help="Documents to show for each rule that gives or takes.")] = 3,
    output: Annotated[Path | None, typer.Option(help="Write the whole answer there, as JSON.")] = None,
    allow_code: AllowCode = False,
) -> None:
    """Decide a finished run again with other bounds, from its measurements: no text is read, nothing is run.

    Shows documents, bytes and estimated tokens gained and lost by source and rule, with samples. What only a run can tell is
    named. Writes nothing into the run folder.
    """
    from curate.what_if import what_if as decide_again
    from curate.what_if import what_if_lines

    result = decide_again(run, sets=sets or (), allow_code=allow_code, sample=sample)
    _show(result, what_if_lines(result, sample=sample), output)


@app.command()
def audit(
    recipe: RecipePath,
    good: Annotated[
        Path | None,
        typer.Option(
            help="Folder of known-good documents: JSON Lines, Parquet or text files.  [default: below $CURATE_DATA]",
            show_default=False,
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Only this source's steps.")] = None,
    sample: Annotated[int, typer.Option(help="Documents to show for each rule.")] = 3,
    output: Annotated[
        Path | None, typer.Option(help="Write the whole answer there: a page if it ends in .html, else JSON.")
    ] = None,
    sets: Sets = None,
    cache: Annotated[Path | None, typer.Option(help="Store of results.  [default: $XDG_CACHE_HOME/curate]")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.  [default: number of cores]")] = None,
    allow_code: AllowCode = False,
) -> None:
    """Show what a recipe's filters would destroy among documents that are known to be good.

    For each rule: the share that it removes by kind and language, alone and with others, samples with their values, and the
    bound that would keep 99 % of them.
    """
    from curate.audit import audit as audit_recipe
    from curate.audit import audit_lines
    from curate.report.page import render_audit

    result = audit_recipe(
        recipe,
        good=good,
        source=source,
        sample=sample,
        sets=sets or (),
        allow_code=allow_code,
        cache=cache,
        workers=workers,
    )
    _show(result, audit_lines(result), output, render_audit)


@app.command()
def report(run: RunPath) -> None:
    """Write report.html and report.json of a run again."""
    from curate.report.collect import write_report

    write_report(run)
    print(f"Open {run / 'report.html'}")


class Format(StrEnum):
    """What `curate export` writes."""

    megatron = "megatron"
    npy = "npy"
    nanotron = "nanotron"
    parquet = "parquet"
    hf = "hf"


@app.command()
def export(
    run: RunPath,
    format: Annotated[Format, typer.Option(help="The layout, see above.", show_default=False)],
    output: Annotated[
        str | None, typer.Option(help="A new or empty folder.  [default: exports/<run>-<format>]", show_default=False)
    ] = None,
    source: Annotated[list[str] | None, typer.Option(help="Only this source; may be repeated.")] = None,
    split: Annotated[str | None, typer.Option(help="Only train or validation.  [default: both]")] = None,
    order: Annotated[str, typer.Option(help="arranged: each document once; mixture: as training reads.")] = "arranged",
    quiet: Annotated[bool, typer.Option("--quiet", help="Show warnings only.")] = False,
) -> None:
    """Write the corpus of a finished run for another trainer, or as a dataset, with a card.

    \b
    Token ids, exactly those of the run, each document ended by its end mark:
      megatron  <split>/<source>/00000.bin and .idx: Megatron-LM's dataset;
                blend.json: the mixture, for --per-split-data-args-path
      npy       <split>/<source>/00000.npy: raw ids as OLMo-core maps them;
                .csv.gz beside it names the documents
      nanotron  <split>/<source>/00000.ds, .ds.index, .ds.metadata: as
                datatrove writes them
    Texts, with id, source, url, language and metadata:
      parquet   <split>/<source>/00000.parquet
      hf        a folder that datasets.load_dataset opens: README.md with its
                configurations, data/<source>/*.parquet

    The folder appears whole or not at all; the same command after a stop goes on where it stopped. Every shard read is
    held against its manifest, every file written against the run's counts. CARD.md (README.md for hf) is a dataset card:
    sources, licences, counts, filters and what each removed, dates, known gaps. export.json lists the files with sha256.

    With --order mixture the files hold the windows of training in its order, repetitions included, so that another trainer
    sees what ours sees.

    \b
    Examples:
      curate export runs/web_code_books --format hf
      curate export runs/web_code_books --format npy --split train --source web
    """
    from curate.export.write import export as export_run

    try:
        made = export_run(run, format.value, output=output, sources=source or (), split=split, order=order, quiet=quiet)
    except KeyboardInterrupt:
        print("curate: interrupted. What is finished stays; export again to go on.", file=sys.stderr)
        raise typer.Exit(130) from None
    if not quiet:
        what = "windows" if order == "mixture" else "documents"
        ids = f" ({made.tokens:,} token ids)" if made.tokens else ""
        print(f"{made.documents:,} {what}{ids} in {made.output}; read {made.card} first.")


def _show(result: Any, lines: list[str], output: Path | None, render: Callable[[Any], str] | None = None) -> None:
    """Print an answer, and write all of it where `--output` says: as a page where one is made of it and the name asks."""
    from curate.cache import write_bytes, write_json

    if output is not None and render is not None and output.suffix == ".html":
        write_bytes(output, render(result).encode())
    elif output is not None:
        write_json(output, result)
    for line in lines:
        print(line)
    if output is not None:
        print(f"Written to {output}")


def _later(name: str) -> Any:
    def command() -> None:
        raise UsageError(f"curate {name}: not built yet.")

    command.__doc__ = "Not built yet."
    return command


for _name in ("compare", "ablate"):
    app.command(_name, context_settings=_LATER)(_later(_name))
for _parent, _group, _names in (("mixture", mixture_app, ("optimize",)),):
    for _name in _names:
        _group.command(_name, context_settings=_LATER)(_later(f"{_parent} {_name}"))


class TokenizerModel(StrEnum):
    """What `curate tokenizer train` trains."""

    bpe = "bpe"
    unigram = "unigram"


@tokenizer_app.command("train")
def tokenizer_train(
    inputs: Annotated[list[str], typer.Argument(help="A recipe, or files of documents.", show_default=False)],
    output: Annotated[Path, typer.Option(help="A new or empty folder.", show_default=False)],
    vocab_size: Annotated[int | None, typer.Option(help="Pieces.  [default: the recipe's, else 32768]")] = None,
    model: Annotated[
        TokenizerModel | None, typer.Option(help="bpe or unigram.  [default: the recipe's, else bpe]")
    ] = None,
    sample: Annotated[
        str | None, typer.Option(help="Bytes to train on, such as 50M.  [default: the recipe's, else 50M]")
    ] = None,
    character_coverage: Annotated[
        float | None, typer.Option(help="Share of characters with a piece.  [default: the recipe's, else 0.9995]")
    ] = None,
    eos: Annotated[str | None, typer.Option(help="Name of the end mark.  [default: the recipe's, else </s>]")] = None,
    text: Annotated[str, typer.Option(help="Field of the text in JSON Lines and Parquet.")] = "text",
    cache: Annotated[Path | None, typer.Option(help="Store of results.  [default: $XDG_CACHE_HOME/curate]")] = None,
    sets: Sets = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.  [default: number of cores]")] = None,
    memory: Annotated[str, typer.Option(help="Buffers of a whole-corpus phase; never changes the result.")] = "1G",
    allow_code: AllowCode = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show warnings only.")] = False,
) -> None:
    """Train a sentencepiece tokenizer on a recipe's curated documents, or on files as they are.

    Files are JSON Lines, Parquet, or else texts, a document each; plain or compressed. Of a recipe the sample is drawn by
    the weights of its mixture.

    The folder holds tokenizer.model, for `tokenizer: {load: ...}` of a recipe; card.json; and hf/, which
    transformers.AutoTokenizer.from_pretrained opens with the same ids. Printed is what the tokenizer makes of all documents:
    tokens for each word, bytes for each token, by source and language.

    Examples: curate tokenizer train recipes/web_code_books.yaml --output tokenizers/demo --vocab-size 8192
    and curate tokenizer train books.jsonl.zst --model unigram --output tokenizers/books
    """
    from curate.tokenizer_command import fertility_lines, train_by_itself

    asked = {
        "vocab_size": vocab_size,
        "model": model and model.value,
        "sample_bytes": sample,
        "character_coverage": character_coverage,
    }
    card = train_by_itself(
        inputs,
        output,
        settings={key: value for key, value in asked.items() if value is not None},
        eos=eos,
        text=text,
        sets=sets or (),
        cache=cache,
        workers=workers,
        memory=memory,
        allow_code=allow_code,
        quiet=quiet,
    )
    for line in fertility_lines(card["fertility"]):
        print(line)
    fewer = "" if card["vocab_size"] == card["vocab_size_asked"] else f" of {card['vocab_size_asked']:,} asked for"
    if not quiet:
        print(f"{card['vocab_size']:,} pieces{fewer} in {output}; for transformers: {output / 'hf'}")


@tokenizer_app.command("export")
def tokenizer_export(
    tokenizer: Annotated[
        Path, typer.Argument(help="A run folder, or a tokenizer's file or folder.", show_default=False)
    ],
    output: Annotated[Path, typer.Option(help="A new or empty folder.", show_default=False)],
    eos: Annotated[str | None, typer.Option(help="The end mark, where the file does not tell it.")] = None,
) -> None:
    """Write a tokenizer so that transformers.AutoTokenizer.from_pretrained opens it with the same ids.

    Example: curate tokenizer export runs/web_code_books --output tokenizers/demo
    """
    from curate.tokenizer_command import export_tokenizer

    names = export_tokenizer(tokenizer, output, eos)
    print(f"{', '.join(names)} in {output}")


@mixture_app.command("plan")
def mixture_plan(
    recipe: RecipePath,
    budget: Annotated[
        str | None, typer.Option(help="Tokens to plan for, such as 10B.  [default: the recipe's]")
    ] = None,
    available: Annotated[
        str | None, typer.Option(help="Tokens that sources, or their groups, have: web=2T,code=300B.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="A run folder to count them in.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it, as mixture.json would hold it.")] = False,
    sets: Sets = None,
    allow_code: AllowCode = False,
) -> None:
    """Show what a recipe's mixture would draw: tokens asked and drawn, epochs, caps. Runs and writes nothing.

    Without --run and --available, tokens are estimated from the size of the input files.
    """
    from curate.mixture_plan import plan, plan_json, plan_lines

    result = plan(recipe, budget=budget, available=available, run=run, sets=sets or (), allow_code=allow_code)
    print(plan_json(result) if as_json else "\n".join(plan_lines(result)))


@classifier_app.command("train")
def classifier_train(
    output: Annotated[Path, typer.Option(help="Folder for model.bin, card.json and the documents that were used.")],
    recipe: Annotated[
        Path | None,
        typer.Argument(help="A recipe with a section `classifier`; or name files below.", show_default=False),
    ] = None,
    positive: Annotated[list[str] | None, typer.Option(help="Files of good documents; may be repeated.")] = None,
    negative: Annotated[
        list[str] | None, typer.Option(help="Files of the pool to be filtered; may be repeated.")
    ] = None,
    text: Annotated[str, typer.Option(help="Field that holds the text, of JSON Lines and Parquet.")] = "text",
    sets: Sets = None,
    cache: Annotated[Path | None, typer.Option(help="Store of results.  [default: $XDG_CACHE_HOME/curate]")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes.  [default: all cores]")] = None,
    memory: Annotated[str, typer.Option(help="Buffers of a whole-corpus phase; never changes the result.")] = "1G",
    allow_code: AllowCode = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show warnings only.")] = False,
) -> None:
    """Fit a quality, score or topic model, judge it on documents that it never saw, and write its card.

    The documents are those that a recipe keeps up to the phase collect, so its gates, filters and deduplication apply to
    them. Fitted in one thread with a fixed seed: the same inputs give the same bytes.
    """
    from curate.classify.train import SUMMARY, train_classifier, write_recipe

    if (recipe is None) == (not positive and not negative):
        raise UsageError(
            "classifier train: name a recipe with a section `classifier`, or --positive and --negative files."
        )
    if recipe is None:
        if not (positive and negative):
            raise UsageError("classifier train: both --positive and --negative are needed.")
        recipe = write_recipe(output, positive, negative, text)
    trained = train_classifier(
        recipe,
        output=output,
        cache=cache,
        sets=sets or (),
        workers=workers,
        memory=memory,
        allow_code=allow_code,
        quiet=quiet,
    )
    print((trained.folder / SUMMARY).read_text(), end="")


@classifier_app.command("score")
def classifier_score(
    model: Annotated[str, typer.Argument(help="A folder that `classifier train` wrote, or a fastText model file.")],
    paths: Annotated[list[str], typer.Argument(help="Files of documents: JSON Lines, Parquet, WARC, EPUB, text.")],
    output: Annotated[Path, typer.Option(help="A .parquet or .jsonl file.")],
    text: Annotated[str, typer.Option(help="Field that holds the text, of JSON Lines and Parquet.")] = "text",
    label: Annotated[str | None, typer.Option(help="Label whose probability is the score, without a card.")] = None,
    form: Annotated[str | None, typer.Option(help="Form of the text, without a card: line or folded.")] = None,
) -> None:
    """Write label, probability and score of every document."""
    from curate.classify.score import score_files

    if form not in (None, "line", "folded"):
        raise UsageError(f"--form {form}: must be line or folded.")
    scored, refused = score_files(model, paths, output, text=text, label=label, form=form)
    print(
        f"{scored:,} documents scored in {output}" + (f", {refused:,} records could not be read." if refused else ".")
    )


@cache_app.command("list")
def cache_list(cache: Annotated[Path | None, typer.Option(help="Store of results.")] = None) -> None:
    """Show where the store is, how many results it holds and their size."""
    from curate.runner import cache_usage

    print(cache_usage(cache))


@cache_app.command("prune", context_settings=_LATER)
def cache_prune() -> None:
    """Not built yet."""
    raise UsageError(
        "curate cache prune: not built yet. The folder that `curate cache list` names may be deleted as a whole."
    )


def main() -> None:
    """Entry point of the command `curate`; turns errors into messages and exit codes."""
    try:
        code = app(standalone_mode=False)
    except CurateError as error:
        print(f"curate: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        print(f"curate: {error.filename or ''}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        show = getattr(error, "show", None)  # a wrong command line, in the words of the parser
        if show is None:
            raise
        show()
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
