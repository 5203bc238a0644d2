"""What the folders around a source file say of it, alone and in a run."""

import json
import os
import uuid

import pyarrow.parquet as pq
import pytest
from test_code_facts import BSD2, MIT

import curate
from curate.errors import InputError
from curate.read.files import Files
from curate.read.source_tree import look_around


def plant(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def around(root, *paths):
    return [json.loads(found or "{}") for found in look_around([(str(root / path), path) for path in paths])]


def test_the_nearest_licence_counts_and_none_outside_the_input(tmp_path):
    plant(
        tmp_path, {"LICENSE": "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007", "in/p/a.py": "x", "in/q/a.py": "x"}
    )
    plant(
        tmp_path / "in",
        {"p/LICENSE": MIT, "p/lib/deep/b.py": "x", "p/lib/COPYING": BSD2, "p/lib/own/LICENSE.txt": "Ask us."},
    )
    plant(tmp_path / "in", {"p/lib/own/c.py": "x"})
    found = around(tmp_path / "in", "p/a.py", "p/lib/deep/b.py", "p/lib/own/c.py", "q/a.py")
    assert found == [
        {"license": "MIT", "license_source": "p/LICENSE", "repository": "p"},
        {"license": "BSD-2-Clause", "license_source": "p/lib/COPYING", "repository": "p"},
        {"license": "NOASSERTION", "license_source": "p/lib/own/LICENSE.txt", "repository": "p"},
        {"repository": "q"},
    ]


@pytest.mark.parametrize(
    ("files", "path", "repository"),
    [
        ({"a/x.md": "x", "a/b/c.py": "x"}, "a/b/c.py", "a"),
        ({"a/b/c.py": "x"}, "a/b/c.py", "a/b"),
        ({"a.py": "x"}, "a.py", None),
        ({"setup.cfg": "x", "src/a.py": "x"}, "src/a.py", "."),  # the input is one project
        ({"README.md": "x", "p/a.py": "x"}, "p/a.py", "p"),  # and here a collection
        ({"owner/name/README": "x", "owner/name/src/a.js": "x"}, "owner/name/src/a.js", "owner/name"),
        (
            {"p/pyproject.toml": "", "p/examples/e/pyproject.toml": "", "p/examples/e/a.py": "x"},
            "p/examples/e/a.py",
            "p",
        ),
        ({"p/README": "x", "p/sub/.git/HEAD": "x", "p/sub/src/a.c": "x"}, "p/sub/src/a.c", "p/sub"),  # .git decides
    ],
)
def test_the_repository(tmp_path, files, path, repository):
    plant(tmp_path, files)
    assert around(tmp_path, path)[0].get("repository") == repository


def test_a_licence_folder_or_pipe_is_no_licence_file(tmp_path):
    plant(tmp_path, {"p/LICENSE/readme.txt": "x", "p/a.py": "x"})
    os.mkfifo(tmp_path / "p" / "COPYING")
    assert "license" not in around(tmp_path, "p/a.py")[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT CHECKED AS ROOT: root can read everything")
def test_a_licence_that_cannot_be_read_stops_the_run(tmp_path):
    plant(tmp_path, {"p/LICENSE": MIT, "p/a.py": "x"})
    (tmp_path / "p" / "LICENSE").chmod(0)
    with pytest.raises(InputError, match="LICENSE"):
        around(tmp_path, "p/a.py")


def test_of_a_remote_tree_the_files_that_are_listed_count():
    import fsspec

    place = f"memory://{uuid.uuid4().hex}/"
    for name, text in {"p/LICENSE": MIT, "p/src/a.py": "x", "q/LICENSE": BSD2, "q/a.py": "x"}.items():
        with fsspec.open(place + name, "w") as file:
            file.write(text)
    listed = ["p/LICENSE", "p/src/a.py", "q/a.py"]
    found = [json.loads(one) for one in look_around([(place + name, name) for name in listed])]
    assert found[1] == {"license": "MIT", "license_source": "p/LICENSE", "repository": "p"}
    assert found[2] == {"repository": "q"}
    with pytest.raises(InputError, match="nothere/LICENSE"):
        look_around([(place + "nothere/LICENSE", "nothere/LICENSE")])


def test_other_readers_look_at_no_neighbours():
    from curate.read.jsonl import Jsonl

    assert Jsonl().surroundings([("/x/a.jsonl", "a.jsonl")]) == ("",)
    assert Files().surroundings([]) == ()


def run(folder):
    """Run the recipe; return the metadata of what is kept, by path, and how many tasks of extract had to be done."""
    curate.run(curate.load(folder / "recipe.yaml"), output=folder / "out", cache=folder / "cache", workers=1)
    rows = pq.read_table(folder / "out" / "documents" / "code").to_pylist()
    timings = json.loads((folder / "out" / "timings.json").read_text(encoding="utf-8"))
    return {row["path"]: json.loads(row["metadata"]) for row in rows}, timings["phases"]["extract"]["tasks_run"]


def test_in_a_run_licences_reach_the_metadata_and_the_keys(tmp_path):
    """The pattern matches no licence file. What a licence file says counts, not its bytes."""
    recipe = (
        "name: tree\nsources:\n  code:\n    read: {kind: files, paths: 'in/**/*.py'}\n"
        "    steps: [{code: {licenses: [MIT]}}]\n"
    )
    files = {
        "recipe.yaml": recipe,
        "in/p/LICENSE": MIT,
        "in/p/a.py": "def area(r):\n    return r * r\n",
        "in/p/b.py": "# SPDX-License-Identifier: Zlib\ndef area(r):\n    return r * 2\n",
        "in/q/c.py": "def area(r):\n    return r * 3\n",
    }
    plant(tmp_path, files)
    facts = {"license": "MIT", "license_source": "p/LICENSE", "repository": "p", "programming_language": "Python"}
    assert run(tmp_path) == ({"p/a.py": facts}, 1)
    extracted = {row["path"]: row for row in pq.read_table(tmp_path / "out" / "extracted" / "code").to_pylist()}
    assert json.loads(extracted["p/b.py"]["metadata"]) == facts | {"license": "Zlib", "license_source": "spdx"}
    assert json.loads(extracted["q/c.py"]["metadata"]) == {"repository": "q", "programming_language": "Python"}

    plant(tmp_path, {"in/p/LICENSE": MIT + "\n\nMore words."})
    assert run(tmp_path) == ({"p/a.py": facts}, 0)
    plant(tmp_path, {"in/p/LICENSE": BSD2})
    assert run(tmp_path) == ({}, 1)
