"""Earlier corpora by their stored signatures: found and checked before any work, compared behind the clusters, and written.

For `Curation`: the tasks, keys and files of `dedup.against` and `dedup.signatures`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.cache import Cache, key_of
from curate.errors import InputError, Problem, RecipeError
from curate.inputs import InputFile, expand_variables, is_remote
from curate.plan import Task

if TYPE_CHECKING:
    from curate.dedup.minhash import Signatures
    from curate.phases.cluster import ShardOfCorpus
    from curate.phases.earlier import EarlierCorpus
    from curate.recipe import Recipe
    from curate.tasks.run import Run

KEY = "dedup.against.runs"
FOLDER = "signatures"  # of a run folder
_MANIFEST = "manifest.json"
_GROUP_DOCUMENTS = 1 << 20  # whose best matches one task finds, in whole shards
_HOW = "Run its recipe again with --set dedup.signatures=true: that writes them."


def signing(recipe: Recipe) -> Signatures:
    """Return by what the documents of a recipe are signed."""
    from curate.dedup.minhash import Signatures
    from curate.dedup.settings import clustering

    dedup = recipe.dedup
    return Signatures.of(clustering(dedup), stored=dedup is not None and dedup.stores_signatures)


# -- before any work ---------------------------------------------------------------------------------------------------


def read_corpora(recipe: Recipe, cache: Cache | None, own: Sequence[Path] = ()) -> list[EarlierCorpus]:
    """Return the earlier corpora that a recipe names.

    Args:
        recipe: The recipe.
        cache: For digests and downloads. None: a look that touches nothing, and leaves remote folders out.
        own: Folders that this run writes.

    Raises:
        RecipeError: With all that cannot be compared with: folders that are not there or hold no signatures, files that
            lack or are damaged, signatures made with other settings.
    """
    against = recipe.dedup.against if recipe.dedup is not None else None
    if against is None:
        return []
    stage = signing(recipe)
    found, problems = [], []
    for name in against.runs:
        try:
            path = expand_variables(name)
            if cache is None and is_remote(path):
                continue
            found.append(_read_corpus(name, path, recipe.base, stage, cache, own))
        except (InputError, ValueError) as error:
            problems.append(Problem(KEY, str(error), None, recipe.places.get(KEY, "")))
    if problems:
        raise RecipeError(tuple(problems))
    return found


def _read_corpus(
    name: str, path: str, base: Path, stage: Signatures, cache: Cache | None, own: Sequence[Path]
) -> EarlierCorpus:
    from curate.dedup.stored import read_manifest
    from curate.phases.earlier import EarlierCorpus, EarlierFile, check_digest

    place, data = (
        _remote_manifest(path, cache) if cache is not None and is_remote(path) else _local_manifest(path, base)
    )
    try:
        stated, listed = read_manifest(data)
    except ValueError as error:
        raise InputError(f"{place}/{_MANIFEST}", f"{error}.", _HOW) from None
    _check_settings(name, stated, stage)
    files = []
    for one in listed:
        if is_remote(place):
            file = _remote_file(f"{place}/{one.path}", one.path, one.bytes)
            copy = key_of(phase="cluster", signatures=one.sha256)
        else:
            file, copy = _local_file(Path(place), one.path, one.bytes, one.sha256, own), ""
        files.append(EarlierFile(file, one.sha256, one.documents, copy))
        if cache is not None and not copy:
            check_digest(files[-1], cache.digest(Path(file.url)))
    return EarlierCorpus(name, hashlib.sha256(data).hexdigest(), tuple(files), stated["words"])


def _local_manifest(path: str, base: Path) -> tuple[str, bytes]:
    """Return the folder of signatures that a path means, and the manifest in it."""
    folder = base / Path(path.removeprefix("file://")).expanduser()
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        remedy = f"Name a run folder, or its {FOLDER}/. Relative paths start at the recipe's folder ({base.resolve()})."
        raise InputError(path, f"{what}, where signatures of an earlier corpus are looked for.", remedy)
    inside = folder / FOLDER
    if (inside / _MANIFEST).is_file():
        folder = inside
    elif inside.is_dir():
        raise InputError(path, f"{inside} has no {_MANIFEST}: the run that writes it has not ended.", _HOW)
    elif (folder / "recipe.yaml").is_file() or not (folder / _MANIFEST).is_file():
        raise InputError(path, "holds no signatures.", _HOW)
    try:
        return str(folder), (folder / _MANIFEST).read_bytes()
    except OSError as error:
        problem = f"{folder / _MANIFEST} cannot be read: {error.strerror}."
        raise InputError(path, problem, "Give the right to read it.") from error


def _remote_manifest(path: str, cache: Cache) -> tuple[str, bytes]:
    from curate.remote import download, list_remote

    for place in (f"{path.rstrip('/')}/{FOLDER}", path.rstrip("/")):
        try:
            [(_, remote)] = list_remote(f"{place}/{_MANIFEST}")
        except InputError as error:
            problem = error
            continue
        target = cache.temporary / f"earlier-{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"
        download(remote, target)
        return place, target.read_bytes()
    raise InputError(path, f"no signatures were found: {problem.problem}", f"Check the address. {_HOW}")


def _local_file(folder: Path, name: str, size: int, sha256: str, own: Sequence[Path]) -> InputFile:
    path = folder / name
    for one in (one.resolve() for one in own):
        if one in path.resolve().parents:
            remedy = "Choose another --output or --cache."
            raise InputError(str(folder), f"it lies in {one}, which this run writes.", remedy)
    again = "Copy the folder again, or run its recipe again."
    if not path.is_file():
        raise InputError(str(path), f"this file is not there, and {_MANIFEST} beside it names it.", again)
    if path.stat().st_size != size:
        problem = f"it is damaged: it has {path.stat().st_size:,} bytes, and {_MANIFEST} beside it says {size:,}."
        raise InputError(str(path), problem, again)
    return InputFile(str(path), None, name, size, sha256)


def _remote_file(url: str, name: str, size: int) -> InputFile:
    from curate.remote import list_remote

    [(_, remote)] = list_remote(url)
    if remote.bytes and remote.bytes != size:
        problem = f"it is damaged: it has {remote.bytes:,} bytes, and {_MANIFEST} beside it says {size:,}."
        raise InputError(url, problem, "Copy the folder again, or run its recipe again.")
    return InputFile(remote.url, None, name, size, remote.digest, remote)


def _check_settings(name: str, stated: Mapping[str, Any], stage: Signatures) -> None:
    """Raise InputError unless signatures were made as those of this recipe are."""
    from curate.dedup.stored import signature_settings

    ours = signature_settings(stage)
    others = {key: stated.get(key) for key in ours}
    apart = [key for key in ours if ours[key] != others[key]]
    if apart == ["version"]:
        problem = f"its signatures are of version {others['version']} of this code, which now makes version {ours['version']}."
        raise InputError(name, problem, _HOW)
    if apart:
        differ = ", ".join(f"{key} is {others[key]} there and {ours[key]} here" for key in apart if key != "version")
        values = ", ".join(f"{key}: {others[key]}" for key in apart if key != "version")
        remedy = f"Set dedup.minhash: {{{values}}}, or run its recipe again with the settings of this one."
        raise InputError(name, f"its signatures cannot be compared with this recipe's: {differ}.", remedy)


# -- comparing ---------------------------------------------------------------------------------------------------------


def remove_earlier(run: Run, corpus: Sequence[ShardOfCorpus]) -> list[Mapping[str, Any]]:
    """Find the documents that earlier corpora hold; the shards get their removals, the run folder earlier.parquet.

    All documents are compared, also those that filters remove, so that another bound of a filter compares nothing again.

    Args:
        run: The run.
        corpus: The shards of the run, as the whole-corpus phases see them.

    Returns:
        For each shard, documents and bytes removed: none if the recipe names no earlier corpus.
    """
    against = run.recipe.dedup.against if run.recipe.dedup is not None else None
    if against is None:
        return [{"removed": {}, "bytes": {}}] * len(run.shards)
    from curate.phases.earlier import remove, tabulate

    corpora = read_corpora(run.recipe, run.cache)
    _warn(run, corpora)
    joined = _pairs(run, corpus, corpora)
    matches = _matches(run, corpus, corpora, joined, against.similarity)
    files = [run.entry(key).files[name]["sha256"] for key, name in matches]
    tasks = []
    for shard, member, found, sha256 in zip(run.shards, corpus, matches, files, strict=True):
        before = [run.entry(one).files["removed.parquet"]["sha256"] for one in member.decided]
        key = run.key(
            "cluster", extracted=member.extracted, matches=sha256, decided=before, similarity=against.similarity
        )
        arguments = (key, member, found, against.similarity)
        tasks.append(Task("cluster", member.source, f"earlier {shard.name}", (key,), remove, arguments))
        shard.decided.append(key)
    names = [one.name for one in corpora]
    table = run.key("cluster", matches=files, names=names)
    tasks.append(Task("cluster", "", "earlier table", (table,), tabulate, (table, matches, names)))
    run.perform("cluster", tasks)
    run.publish(table, "earlier.parquet", "earlier.parquet")
    counts = [run.entry(shard.decided[-1]).counts for shard in run.shards]
    compared = [run.entry(key).counts["pairs"] for key in dict.fromkeys(key for key, _ in matches)]
    facts = {"similarity": against.similarity, "pairs": sum(compared)}
    run.account.facts["earlier"] = facts | _facts(run, corpora, joined, counts, against.similarity)
    return list(counts)


def _warn(run: Run, corpora: Sequence[EarlierCorpus]) -> None:
    from curate.dedup.stored import words_version

    for one in corpora:
        if not one.documents:
            run.account.warnings.append(f"{KEY}: {one.name} holds no documents, so none is found there.")
        apart = [
            f"{key} {one.words.get(key)}, now {now}"
            for key, now in words_version().items()
            if one.words.get(key) != now
        ]
        if apart:
            text = (
                f"{KEY}: {one.name} was signed with {', '.join(apart)}: words of some scripts may be parted otherwise."
            )
            run.account.warnings.append(text)


def _pairs(run: Run, corpus: Sequence[ShardOfCorpus], corpora: Sequence[EarlierCorpus]) -> list[str]:
    """Find the pairs of documents that share a key; return the result key of each partition."""
    from curate.dedup.earlier import PARTITIONS
    from curate.phases.earlier import copy_file, index, join

    copies = {file.copy: file for one in corpora for file in one.files if file.copy}
    tasks = [
        Task("cluster", "", f"copy {file.file.path}", (key,), copy_file, (key, file)) for key, file in copies.items()
    ]
    run.perform("cluster", tasks)
    indexes = [[run.key("cluster", earlier=one.digest, partition=n) for n in range(PARTITIONS)] for one in corpora]
    tasks = [
        Task("cluster", "", f"index {one.name} {number:02d}", (key,), index, (key, one, number))
        for one, keys in zip(corpora, indexes, strict=True)
        for number, key in enumerate(keys)
    ]
    run.perform("cluster", list({task.keys: task for task in tasks}.values()))  # a corpus may be named twice
    signatures = [member.signatures for member in corpus]
    documents = sum(_sizes(run, corpus))
    joined, tasks = [], []
    for number in range(PARTITIONS):
        of_each = [keys[number] for keys in indexes]
        key = run.key("cluster", signatures=signatures, earlier=of_each, partition=number)
        arguments = (key, signatures, documents, corpora, of_each, number)
        joined.append(key)
        tasks.append(Task("cluster", "", f"join {number:02d}", (key,), join, arguments))
    run.perform("cluster", tasks)
    return joined


def _sizes(run: Run, corpus: Sequence[ShardOfCorpus]) -> list[int]:
    return [run.entry(member.extracted).counts["extracted"] for member in corpus]


def _matches(
    run: Run,
    corpus: Sequence[ShardOfCorpus],
    corpora: Sequence[EarlierCorpus],
    joined: Sequence[str],
    similarity: float,
) -> list[tuple[str, str]]:
    """Find the best match of each document; return for each shard result key and file."""
    from curate.dedup.stored import num_permutations
    from curate.phases.earlier import compare

    permutations = num_permutations(signing(run.recipe))
    pairs = [run.entry(key).files["pairs.u64"]["sha256"] for key in joined]
    sizes = _sizes(run, corpus)
    groups: list[list[int]] = []
    filled = 0
    for number, size in enumerate(sizes):
        if not groups or filled + size > _GROUP_DOCUMENTS:
            groups.append([])
            filled = 0
        groups[-1].append(number)
        filled += size
    matches, tasks = [], []
    for place, group in enumerate(groups):
        members = [corpus[number] for number in group]
        key = run.key(
            "cluster",
            pairs=pairs,
            signatures=[(member.signatures, member.first) for member in members],
            earlier=[one.digest for one in corpora],
            similarity=similarity,
        )
        documents = [sizes[number] for number in group]
        arguments = (key, members, documents, corpora, joined, similarity, permutations)
        tasks.append(Task("cluster", "", f"compare {place:05d}", (key,), compare, arguments))
        matches += [(key, f"matches-{number}.parquet") for number in range(len(group))]
    run.perform("cluster", tasks)
    return matches


def _facts(
    run: Run,
    corpora: Sequence[EarlierCorpus],
    joined: Sequence[str],
    counts: Sequence[Mapping[str, Any]],
    similarity: float,
) -> dict[str, Any]:
    """Return what the manifest says: by earlier corpus its documents and what was removed for them; how good the estimate is."""
    from curate.dedup.earlier import standard_error
    from curate.dedup.stored import num_permutations

    permutations = num_permutations(signing(run.recipe))
    runs = []
    for number, one in enumerate(corpora):
        of_run = [shard["runs"].get(str(number), {}) for shard in counts]
        removed = {name: sum(found.get(name, 0) for found in of_run) for name in ("exact", "near")}
        runs.append({"run": one.name, "sha256": one.digest, "documents": one.documents, **removed})
    pairs = [run.entry(key).counts for key in joined]
    return {
        "permutations": permutations,
        "standard_error": round(standard_error(similarity, permutations), 4),
        "runs": runs,
        "crowded_keys": sum(one["crowded"] for one in pairs),
        "pairs_left_out": sum(one["left_out"] for one in pairs),
    }


# -- writing -----------------------------------------------------------------------------------------------------------


def write_signatures(run: Run) -> None:
    """Write the signatures of the curated corpus into the run folder, if the recipe asks for them; behind collect."""
    if run.recipe.dedup is None or not run.recipe.dedup.signatures:
        return
    from curate.dedup.stored import stored_manifest
    from curate.phases.signature_files import store_signatures

    tasks = []
    for shard in run.shards:
        key = run.key("collect", collected=shard.collected, signatures=shard.signatures)
        arguments = (key, shard.source.name, shard.collected, shard.signatures)
        tasks.append(Task("collect", shard.source.name, f"{FOLDER} {shard.name}", (key,), store_signatures, arguments))
    run.perform("collect", tasks)
    files = []
    for shard, task in zip(run.shards, tasks, strict=True):
        entry = run.entry(task.keys[0])
        place = f"{shard.source.name}/{shard.name}.parquet"
        run.publish(entry.key, "signatures.parquet", f"{FOLDER}/{place}")
        facts = {name: entry.files["signatures.parquet"][name] for name in ("bytes", "sha256")}
        files.append({"path": place, "documents": entry.counts["documents"], **facts})
    run.write(f"{FOLDER}/{_MANIFEST}", stored_manifest(signing(run.recipe), files))
