"""Large input files in parts, so that several workers share one and a run that was killed goes on inside it.

Where a file is cut is a result like any other: made by a task, kept in the cache. It depends on the file and on fixed
sizes, never on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curate.cache import Cache, key_of, stage_key
from curate.errors import CurateError, StageError
from curate.inputs import InputFile, Part, open_part, parts_of
from curate.plan import Task, TaskContext
from curate.remote import NotInRanges
from curate.stage import Cut, Source

PART_BYTES = 64 << 20  # as stored; a file of up to one and a half of this stays whole
LOOK_BYTES = 16 << 20  # of a remote file, to see where it can be cut

VERSION = 1  # raise when other cuts come out of the same readers


def find_cuts(context: TaskContext, key: str, source: str, reader: Source, file: InputFile, every: int) -> None:
    """Write result `key`: where the reader would have the file cut, as a count named `cuts`.

    Args:
        context: Of the task.
        key: Of the result.
        source: Name of the source.
        reader: Its reader.
        file: The file. A remote one whose server gives no ranges stays whole.
        every: As in `Source.cuts`.
    """
    with context.writing(key) as output, context.scratch() as folder:
        cuts: tuple[Cut, ...] = ()
        try:
            with open_part(Part(file), folder, most=LOOK_BYTES) as stream:
                cuts = reader.cuts(stream, file.path, every)
        except NotInRanges:
            pass
        except (CurateError, OSError):
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            remedy = "Check that `kind` fits the file, or take the file out of `paths`."
            raise StageError(source, "read", file.path, problem, remedy) from error
        output.counts["cuts"] = [(cut.offset, cut.byte) for cut in cuts]


def divide(
    sources: Sequence[tuple[str, Source, Sequence[InputFile]]],
    cache: Cache,
    perform: Callable[[Sequence[Task]], None],
    every: int | None,
) -> list[list[Part]]:
    """Return the parts of the files of each source, in canonical order.

    Args:
        sources: Name, reader and files of each source.
        cache: Where the cuts are.
        perform: Runs tasks.
        every: Stored bytes of a part; None leaves all files whole.
    """
    if every is None:
        return [[Part(file) for file in files] for *_, files in sources]
    keys: dict[tuple[str, InputFile], str] = {}
    tasks = []
    for name, reader, files in sources:
        if type(reader).cuts is Source.cuts:
            continue
        for file in files:
            if 2 * file.bytes > 3 * every:
                key = key_of(
                    phase="extract",
                    cuts=VERSION,
                    reader=stage_key(reader),
                    path=file.path,
                    digest=file.digest,
                    every=every,
                )
                keys[name, file] = key
                tasks.append(
                    Task("extract", name, f"cuts of {file.path}", (key,), find_cuts, (key, name, reader, file, every))
                )
    perform(tasks)
    found: list[list[Part]] = []
    for name, _, files in sources:
        parts: list[Part] = []
        for file in files:
            entry = cache.entry(keys[name, file]) if (name, file) in keys else None
            cuts = [] if entry is None else [Cut(offset, byte) for offset, byte in entry.counts["cuts"]]
            parts += parts_of(file, cuts)
        found.append(parts)
    return found
