"""`curate classifier train`: a recipe's documents to a model, judged on documents that it never saw, and its card."""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.cache import sha256_file, write_bytes, write_json
from curate.classify.inputs import source_block
from curate.classify.settings import NEGATIVE, POSITIVE, Classifier
from curate.errors import InputError, UsageError
from curate.filter.classifier import CARD, MODEL
from curate.loading import load
from curate.recipe import Recipe
from curate.runner import run
from curate.stage import canonical
from curate.yamlfile import dump

HELD_OUT_FILE, SUMMARY, CORPUS = "held_out.parquet", "card.md", "corpus"
_OWN = {MODEL, CARD, HELD_OUT_FILE, SUMMARY, CORPUS, "recipe.yaml"}


@dataclass(frozen=True, slots=True)
class Trained:
    """What was written.

    Attributes:
        folder: Holds model.bin, card.json, card.md, held_out.parquet and corpus/, the run whose documents were used.
        card: Content of card.json.
    """

    folder: Path
    card: Mapping[str, Any]


def write_recipe(output: Path, positive: Sequence[str], negative: Sequence[str], text: str) -> Path:
    """Write the recipe that paths on the command line mean; one source for each path.

    Args:
        output: Folder of the classifier; the recipe is its recipe.yaml.
        positive: Paths or patterns of good documents.
        negative: Those of the pool.
        text: Field that holds the text, of JSON Lines and Parquet.
    """
    sources: dict[str, Any] = {}
    names: dict[str, list[str]] = {POSITIVE: [], NEGATIVE: []}
    for side, paths in ((POSITIVE, positive), (NEGATIVE, negative)):
        for number, path in enumerate(paths, 1):
            name = f"{side}-{number}"
            names[side].append(name)
            where = path if "://" in path else str(Path(path).expanduser().absolute())
            sources[name] = source_block(where, text)
    content = {"name": _plain_name(output.name), "sources": sources, "classifier": names}
    _prepare(output)
    file = output / "recipe.yaml"
    write_bytes(file, dump(content).encode())
    return file


def _plain_name(name: str) -> str:
    kept = "".join(sign if (sign.isalnum() and sign.isascii()) or sign in "_.-" else "_" for sign in name).lstrip("_.-")
    return kept[:64] or "classifier"


def _prepare(output: Path) -> None:
    """Make the folder, or refuse one that holds something else."""
    if output.exists() and not output.is_dir():
        raise UsageError(f"--output {output}: is a file.")
    strange = sorted({path.name for path in output.iterdir()} - _OWN) if output.exists() else []
    if strange:
        raise UsageError(f"--output {output}: holds {strange[0]}, which no classifier writes. Name another folder.")
    output.mkdir(parents=True, exist_ok=True)


def train_classifier(
    recipe: str | Path,
    *,
    output: str | Path,
    cache: str | Path | None = None,
    sets: Iterable[str] = (),
    workers: int | None = None,
    memory: int | str = "1G",
    allow_code: bool = False,
    quiet: bool = False,
) -> Trained:
    """Curate the documents of a recipe, fit a fastText model on them, judge it on those held out, write its card.

    The same recipe and inputs give the same bytes, whatever the number of workers and the folder.

    Args:
        recipe: Path of a recipe with a section `classifier`.
        output: Folder for the model.
        cache: As for `curate.run`.
        sets: Overrides such as `classifier.keep=0.05`.
        workers: As for `curate.run`.
        memory: As for `curate.run`.
        allow_code: As for `curate.run`.
        quiet: As for `curate.run`.

    Raises:
        CurateError: As `curate.run`; and if a class is empty, or a file stands on both sides or twice.
    """
    from curate.classify.examples import Corpus, choose, gather
    from curate.classify.fit import fit, write_model

    loaded = load(recipe, sets=sets, allow_code=allow_code)
    settings = loaded.classifier
    if settings is None:
        raise UsageError(
            f"{recipe}: has no section `classifier`, such as classifier: {{positive: books, negative: web}}."
        )
    folder = Path(output)
    _prepare(folder)
    result = run(
        loaded,
        output=folder / CORPUS,
        cache=cache,
        workers=workers,
        memory=memory,
        until="collect",
        train=False,
        quiet=quiet,
    )
    _refuse_files_twice(loaded, settings, result.manifest)
    corpus = Corpus(folder / CORPUS, settings, [source.name for source in loaded.sources], loaded.seed)
    chosen = choose(corpus)
    with tempfile.TemporaryDirectory(prefix=".fit-", dir=folder) as scratch:
        held_out = Path(scratch) / HELD_OUT_FILE
        examples, vocabulary = gather(corpus, chosen, Path(scratch), held_out)
        model = fit(examples, vocabulary, len(chosen.labels), settings.fasttext, loaded.seed)
        classes = [(label, corpus.counts[label].trained) for label in chosen.labels]
        place = Path(scratch) / MODEL
        write_model(place, model, vocabulary, classes, settings.fasttext)
        card = _card(loaded, settings, result.manifest, corpus, chosen.labels) | {
            "model": {
                "file": MODEL,
                "sha256": sha256_file(place),
                "bytes": place.stat().st_size,
                "words": vocabulary.num_words,
                "training_loss": model.loss,
            }
        }
        card["held_out"] = _judge(place, card, held_out, Path(scratch) / "judged.parquet", settings)
        del examples  # mapped from the scratch folder
        # The card goes first and comes last: a model without one is no result.
        (folder / CARD).unlink(missing_ok=True)
        place.replace(folder / MODEL)
        (Path(scratch) / "judged.parquet").replace(folder / HELD_OUT_FILE)
        write_bytes(folder / SUMMARY, summary(card).encode())
        write_json(folder / CARD, card)
    return Trained(folder, card)


def _refuse_files_twice(recipe: Recipe, settings: Classifier, manifest: Mapping[str, Any]) -> None:
    """Refuse a file that stands in two sources: on both sides it teaches nothing, and twice on one it counts twice."""
    seen: dict[str, tuple[str, str]] = {}
    classes = settings.classes()
    for source in recipe.sources:
        if classes and source.name not in classes:
            continue
        for file in manifest["inputs"][source.name]["files"]:
            digest = file.get("sha256") or file["etag_digest"]
            if digest in seen:
                other, path = seen[digest]
                same = "the same file" if path == file["path"] else f"the same bytes as {path}"
                problem = f"is {same} in source '{other}'."
                if classes and classes[other] != classes[source.name]:
                    problem = f"is {same} in source '{other}', which is of the other kind."
                remedy = "Name each file once." if other != source.name else "Take one of them out."
                raise InputError(f"{file['path']} (source '{source.name}')", problem, remedy)
            seen[digest] = (source.name, file["path"])


def _card(
    recipe: Recipe, settings: Classifier, manifest: Mapping[str, Any], corpus: Any, labels: Sequence[str]
) -> dict[str, Any]:
    score = {POSITIVE: 1.0} if settings.positive is not None else {}
    if settings.score is not None:
        score = {label: float(label) for label in labels}
    classes = settings.classes()
    used = [source.name for source in recipe.sources if not classes or source.name in classes]
    return {
        "name": recipe.name,
        "kind": "score" if settings.score is not None else "labels" if settings.label is not None else "quality",
        "reading": {"text": settings.text, "score": score},
        "labels": list(labels),
        "settings": canonical(settings),
        "seed": recipe.seed,
        "data": {
            "classes": {
                label: {
                    **{name: getattr(corpus.counts[label], name) for name in _COUNTS},
                    "sources": [source for source, of in classes.items() if of == label] or used,
                }
                for label in labels
            },
            "unlabelled": corpus.unlabelled,
            "sources": {name: manifest["inputs"][name] | {"ledger": manifest["ledger"][name]} for name in used},
            "stages": {name: stage["key"] for name, stage in manifest["stages"].items()},
        },
        "versions": {
            "curate": importlib.metadata.version("curate"),
            "python": ".".join(map(str, sys.version_info[:2])),
            "numpy": importlib.metadata.version("numpy"),
            "numba": importlib.metadata.version("numba"),
            "fit": settings.fasttext.version,
        },
    }


_COUNTS = ("documents", "empty", "examples", "repeated", "ambiguous", "trained", "held_out")


def _judge(model: Path, card: Mapping[str, Any], texts: Path, judged: Path, settings: Classifier) -> dict[str, Any]:
    """Score the held-out examples as a filter would, write them, and return what the card says of them."""
    import numpy as np
    import pyarrow as pa

    from curate.classify.evaluate import KEEP_RATES, Judgement, confusion
    from curate.filter.classifier import load_classifier, scores_of
    from curate.pipeline import ParquetFile, read_batches

    classifier = load_classifier(str(model), card["reading"]["text"], card["model"]["sha256"])
    labels = classifier.labels
    schema = pa.schema(
        [("label", pa.string()), ("number", pa.float64()), ("found", pa.string()), ("score", pa.float64())]
    )
    expected, found, scores, numbers = [], [], [], []
    with ParquetFile(judged, schema) as file:
        for batch in read_batches(texts):
            probabilities = classifier.probabilities(batch["text"].to_pylist())
            best = probabilities.argmax(axis=1)
            values = (
                scores_of(probabilities, labels, card["reading"]["score"])
                if card["reading"]["score"]
                else probabilities.max(axis=1)
            )
            columns = [
                batch["label"],
                batch["number"],
                pa.array([labels[place] for place in best], pa.string()),
                pa.array(values, pa.float64()),
            ]
            file.write(pa.record_batch(columns, schema=schema))
            expected += [labels.index(label) for label in batch["label"].to_pylist()]
            numbers += batch["number"].to_pylist()
            found.append(best)
            scores.append(values)
    truth, whole = np.array(expected, np.int64), np.concatenate(scores)
    facts = {
        "unit": "document" if settings.passage_words is None else f"passage of up to {settings.passage_words} words"
    }
    facts |= confusion(truth, np.concatenate(found), labels)
    if settings.label is not None:
        return facts
    if settings.score is not None:
        good = np.array(numbers, np.float64) >= settings.score.positive_from
        pool = np.ones(len(good), bool)
    else:
        good = truth == labels.index(POSITIVE)
        pool = ~good
    if not good.any() or good.all():
        what = "good" if not good.any() else "other"
        problem = f"none of the {len(good):,} held-out examples is a {what} one, so nothing can be judged."
        raise InputError(str(model.parent), problem, "Give more documents, or raise classifier.held_out.")
    return facts | Judgement(whole, good, pool).as_json((*KEEP_RATES, settings.keep))


def summary(card: Mapping[str, Any]) -> str:
    """Return card.md: what a person wants to know of the model."""
    held, settings = card["held_out"], card["settings"]
    fitted = settings["fasttext"]
    ngrams = "words" if fitted["word_ngrams"] == 1 else f"words and runs of up to {fitted['word_ngrams']}"
    lines = [
        f"# {card['name']}",
        "",
        f"A fastText classifier ({card['kind']}): {card['model']['words']:,} words, {fitted['dim']} dimensions, {ngrams}, "
        f"learning rate {fitted['lr']:g}, {fitted['epochs']} epochs, seed {card['seed']}. "
        f"It reads texts in the form `{card['reading']['text']}`. sha256 {card['model']['sha256']}.",
        "",
        "| class | sources | documents | examples | repeated | in two classes | trained on | held out |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for label, counts in card["data"]["classes"].items():
        numbers = ("documents", "examples", "repeated", "ambiguous", "trained", "held_out")
        cells = " | ".join(f"{counts[name]:,}" for name in numbers)
        lines.append(f"| {label} | {', '.join(counts['sources'])} | {cells} |")
    if card["data"]["unlabelled"]:
        lines += ["", f"{card['data']['unlabelled']:,} documents had no label and were left out."]
    lines += ["", f"On the held-out examples (each a {held['unit']}): accuracy {held['accuracy']:.4f}."]
    if "auc" in held:
        lines += [
            f"Area under the curve {held['auc']:.4f}, average precision {held['average_precision']:.4f}, "
            f"{held['good']:,} good and {held['others']:,} others.",
            "",
            "| keep of the pool | threshold | kept | precision | recall |",
            "| ---: | ---: | ---: | ---: | ---: |",
        ]
        for row in held["keep_rates"]:
            shown = " (asked)" if row["keep"] == settings["keep"] else ""
            precision = "" if row["precision"] is None else f"{row['precision']:.4f}"
            lines.append(
                f"| {row['keep']:g}{shown} | {row['threshold']:.6g} | {row['pool_kept']:.4f} | {precision} | {row['recall']:.4f} |"
            )
    else:
        lines += ["", "| label | held out | precision | recall |", "| --- | ---: | ---: | ---: |"]
        for label, row in held["labels"].items():
            shares = [("" if row[name] is None else f"{row[name]:.3f}") for name in ("precision", "recall")]
            lines.append(f"| {label} | {row['documents']:,} | {shares[0]} | {shares[1]} |")
    return "\n".join(lines) + "\n"
