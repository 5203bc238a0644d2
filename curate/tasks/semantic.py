"""The tasks and keys by which a run finds documents that say nearly the same: behind the choice among copies, for `Curation`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.cache import Cache, key_of, stage_key
from curate.errors import InputError
from curate.inputs import expand_variables, is_remote
from curate.plan import Task
from curate.sources import fetch_model, input_facts, resolve_paths

if TYPE_CHECKING:
    from curate.dedup.kinds import Semantic
    from curate.dedup.semantic_vectors import WordVectors
    from curate.inputs import InputFile
    from curate.phases.cluster import ShardOfCorpus
    from curate.phases.measure import LastMeasure
    from curate.recipe import Recipe
    from curate.tasks.run import Run, ShardOfRun

_MODEL, _EMBEDDINGS = "dedup.semantic.model", "dedup.semantic.embeddings"


def _settings(recipe: Recipe) -> Semantic | None:
    return recipe.dedup.semantic if recipe.dedup is not None else None


# -- inputs ------------------------------------------------------------------------------------------------------------


def word_vectors(recipe: Recipe, cache: Cache) -> WordVectors | None:
    """Return the stage that embeds documents by a recipe's model, fetched if need be, or None if it names none.

    Raises:
        InputError: If the model cannot be fetched or read, has another digest than is stated, or is no fastText model.
        RecipeError: If it is not there.
    """
    settings = _settings(recipe)
    if settings is None or settings.model is None:
        return None
    from curate.dedup.semantic_vectors import WordVectors

    address = expand_variables(settings.model)
    if is_remote(address):
        path = _fetched(address, settings.sha256, cache)
    else:
        path = Path(resolve_paths((settings.model,), recipe, cache, _MODEL)[0].url)
    digest = cache.digest(path)
    if settings.sha256 not in (None, digest):
        problem = f"sha256 is {digest}, not {settings.sha256}, as the recipe states."
        raise InputError(settings.model, problem, "Correct `sha256:`, or find out why the file is another one.")
    return WordVectors(model=str(path), digest=digest)


@functools.lru_cache(maxsize=4)
def _fetched(address: str, stated: str | None, cache: Cache) -> Path:
    """Return the local copy of a model; its server is asked once a process, not once a shard."""
    return fetch_model(address, stated, cache)


def embedding_files(recipe: Recipe, cache: Cache) -> list[InputFile]:
    """Return the files of embeddings that a recipe names; none if it names none.

    Raises:
        RecipeError: If a path matches nothing.
    """
    settings = _settings(recipe)
    if settings is None or not settings.embeddings:
        return []
    return resolve_paths(settings.embeddings, recipe, cache, _EMBEDDINGS)


def check_semantic(recipe: Recipe, cache: Cache) -> None:
    """Refuse before any work a model or files of embeddings that are not there, or of which the head cannot be read.

    Raises:
        InputError, RecipeError: As `word_vectors` and `embedding_files`; and of local files of embeddings without the columns.
    """
    stage = word_vectors(recipe, cache)
    if stage is not None:
        from curate.text.fasttext_file import read_model_file

        read_model_file(stage.model, only_classifier=False)
    for file in embedding_files(recipe, cache):
        if file.remote is None:
            from curate.dedup.semantic_files import check_columns

            check_columns(Path(file.url.removeprefix("file://")), file.path)


# -- tasks -------------------------------------------------------------------------------------------------------------


def vectors_measure(run: Run, shard: ShardOfRun) -> LastMeasure | None:
    """Return the measure that embeds a shard's last revision, if the recipe names a model and looks at the source."""
    settings = _settings(run.recipe)
    if settings is None or not settings.looks_at(shard.source.name):
        return None
    stage = word_vectors(run.recipe, run.cache)
    if stage is None:
        return None
    from curate.dedup.semantic_vectors import vector_schema
    from curate.phases.measure import LastMeasure
    from curate.phases.semantic import prepare_vectors

    own = stage_key(stage)
    key = run.key("measure", revision=shard.revision, vectors=own)
    return LastMeasure("dedup.semantic", stage, own, key, vector_schema(), prepare_vectors)


def join_embeddings(run: Run, corpus: Sequence[ShardOfCorpus]) -> None:
    """Look up the documents in files of embeddings, if the recipe names some; the shards get their vectors' keys."""
    settings, files = _settings(run.recipe), embedding_files(run.recipe, run.cache)
    if settings is None or not files:
        return
    from curate.phases.semantic import join, merge, read_file

    read = [run.key("choose", embeddings=(file.path, file.digest)) for file in files]
    tasks = [
        Task("choose", "", f"embeddings {number:05d}", (key,), read_file, (key, file))
        for number, (key, file) in enumerate(zip(read, files, strict=True))
    ]
    run.perform("choose", list({task.keys: task for task in tasks}.values()))
    merged = run.key("choose", keys=[run.entry(key).files["keys.u64"]["sha256"] for key in read], read=read)
    arguments: tuple[Any, ...] = (merged, [file.path for file in files], read)
    run.perform("choose", [Task("choose", "", "embeddings", (merged,), merge, arguments)])
    tasks = []
    for shard, member in zip(run.shards, corpus, strict=True):
        if settings.looks_at(shard.source.name):
            shard.vectors = run.key("choose", extracted=shard.extracted, merged=merged)
            arguments = (shard.vectors, member, merged, read)
            name = f"embeddings {shard.name}"
            tasks.append(Task("choose", shard.source.name, name, (shard.vectors,), join, arguments))
    run.perform("choose", tasks)
    run.account.facts["embeddings"] = [
        input_facts(file) | dict(run.entry(key).counts) for key, file in zip(read, files, strict=True)
    ]


def find_semantic(run: Run, corpus: Sequence[ShardOfCorpus], resolved: Sequence[str]) -> str | None:
    """Find who goes among the documents that are still kept; return the result's key, or None if the recipe does not ask.

    Args:
        run: The run.
        corpus: Its shards, in document order.
        resolved: Result keys of the copies that go, by partition (`curate.tasks.copies.resolve_copies`).
    """
    settings, seed = _settings(run.recipe), run.recipe.seed
    if settings is None:
        return None
    from curate.dedup.settings import clustering
    from curate.phases.semantic import Looked, assign, centroids, copies_gone, gone, judge, shares, taking_part

    join_embeddings(run, corpus)
    keep = clustering(run.recipe.dedup).keep
    documents = sum(run.entry(shard.extracted).counts["extracted"] for shard in run.shards)
    marked = [run.entry(one).files["resolved.parquet"]["sha256"] for one in resolved]
    copies = run.key("choose", copies=marked, documents=documents)
    arguments: tuple[Any, ...] = (copies, resolved, documents)
    run.perform("choose", [Task("choose", "", "copies of texts", (copies,), copies_gone, arguments)])
    looked = [
        Looked(member, shard.vectors, copies) for shard, member in zip(run.shards, corpus, strict=True) if shard.vectors
    ]
    parts, tasks = [], []
    copies_sha = run.entry(copies).files["gone.u8"]["sha256"]
    for one in looked:
        member = one.corpus
        key = run.key(
            "choose",
            vectors=one.vectors,
            extracted=member.extracted,
            signatures=member.signatures,
            measures=member.measures,
            decided=[run.entry(removed).files["removed.parquet"]["sha256"] for removed in member.decided],
            copies=copies_sha,
            place=(member.rank, member.first),
            keep=key_of(keep=keep),
            seed=seed,
        )
        parts.append(key)
        name = f"vectors {member.first}"
        tasks.append(Task("choose", member.source, name, (key,), taking_part, (key, keep, seed, one)))
    run.perform("choose", tasks)
    embeddings = bool(settings.embeddings)
    content = [{name: facts["sha256"] for name, facts in run.entry(key).files.items()} for key in parts]
    subtracted = settings.subtracts_mean
    fitted = run.key("choose", parts=content, clusters=settings.clusters, once=embeddings, subtract_mean=subtracted)
    arguments = (fitted, settings.clusters, parts, subtracted, ", ".join(settings.embeddings))
    run.perform("choose", [Task("choose", "", "centroids", (fitted,), centroids, arguments)])
    facts = run.entry(fitted).counts
    groups_of = {name: file["sha256"] for name, file in run.entry(fitted).files.items()}
    assigned = [run.key("choose", part=one, groups_of=groups_of) for one in content]
    tasks = [
        Task("choose", one.corpus.source, f"groups {one.corpus.first}", (key,), assign, (key, part, fitted))
        for one, part, key in zip(looked, parts, assigned, strict=True)
    ]
    run.perform("choose", list({task.keys: task for task in tasks}.values()))
    shared = run.key("choose", shares=assigned)
    arguments = (shared, assigned, facts["clusters"])
    run.perform("choose", [Task("choose", "", "groups", (shared,), shares, arguments)])
    judged, tasks = [], []
    for groups in run.entry(shared).counts["groups"]:
        key = run.key("choose", assigned=assigned, groups=groups, similarity=settings.similarity)
        arguments = (key, settings.similarity, parts, assigned, tuple(groups), facts["dimensions"])
        judged.append(key)
        tasks.append(Task("choose", "", f"groups {groups[0]} to {groups[1] - 1}", (key,), judge, arguments))
    run.perform("choose", tasks)
    whole = run.key("choose", judged=judged)
    run.perform("choose", [Task("choose", "", "semantic copies", (whole,), gone, (whole, judged))])
    run.publish(whole, "semantic.parquet", "semantic.parquet")
    stage = word_vectors(run.recipe, run.cache)
    model = {} if stage is None else {"model_sha256": stage.digest}
    run.account.facts["semantic"] = model | _facts(
        settings,
        facts,
        run.entry(whole).counts,
        [run.entry(key).counts for key in parts],
        sum(run.entry(key).counts["central"] for key in assigned),
        run.entry(shared).counts,
    )
    found = run.account.facts["semantic"]
    if embeddings and found["looked_at"] and found["without"] == found["looked_at"]:
        raise InputError(
            ", ".join(settings.embeddings),
            f"names none of the {found['looked_at']:,} documents that are looked at.",
            "`id` are ids of documents (32 hex digits, as in documents/), `source_id` those of the input.",
        )
    if found["without"]:
        text = f"dedup.semantic: {found['without']:,} of {found['looked_at']:,} documents have no vector and are left alone."
        run.account.warnings.append(text)
    if 2 * found["removed"] > found["looked_at"]:
        shown = f"{found['removed']:,} of {found['looked_at']:,}"
        text = f"dedup.semantic removes {shown} documents: most likely similarity is too low for this model. See semantic.parquet."
        run.account.warnings.append(text)
    return whole


def _facts(
    settings: Semantic,
    fitted: Mapping[str, Any],
    whole: Mapping[str, Any],
    parts: Sequence[Mapping[str, Any]],
    central: int,
    shared: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the manifest says: documents looked at, those without a vector, groups, and documents that go."""
    return {
        "looked_at": sum(part["looked_at"] for part in parts),
        "without": sum(part["without"] for part in parts) + central,
        "similarity": settings.similarity,
        **{name: fitted[name] for name in ("dimensions", "mean_length", "clusters", "sampled")},
        "largest": shared["largest"],
        **whole,
    }
