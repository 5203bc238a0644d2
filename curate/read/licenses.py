"""Licences: SPDX tags (SPDX 2.3, annex E), licence texts by phrases that only they have, notices, package metadata.

Phrases are compared in lower case, with everything but letters and digits folded to one space. Names are SPDX
identifiers. A licence text says which licence, not whether a later version is allowed: GPL-3.0 from a file COPYING,
GPL-3.0-or-later from a notice that says so. NOASSERTION (SPDX's word) is a licence that is there and not known here.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence

UNKNOWN = "NOASSERTION"
MAX_LICENSE_BYTES = 256 << 10  # of a licence file or package manifest that are looked at

_TAG = re.compile(
    r"(?m)^(?:\W{0,20}|.{0,3}[^\w\n]{1,10}(?:\w{1,8}[^\w\n]{1,4})?)SPDX-License-Identifier:[ \t]*([^\r\n]*)"
)
_EXPRESSION = re.compile(r"[A-Za-z0-9.+\-:() \t]+")
_WORDS = re.compile(r"[^a-z0-9]+")

_BSD = "redistribution and use in source and binary forms with or without modification"
_MIT = "permission is hereby granted free of charge to any person obtaining a copy"
_ISC = "to use copy modify and or distribute this software for any purpose with or without fee is hereby granted"
# (identifier, phrases that all must be there, phrases that must not), the more particular first.
_TEXTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("AGPL-3.0", ("gnu affero general public license version 3 19 november 2007",), ()),
    ("LGPL-3.0", ("gnu lesser general public license version 3 29 june 2007",), ()),
    ("LGPL-2.1", ("gnu lesser general public license version 2 1 february 1999",), ()),
    ("LGPL-2.0", ("gnu library general public license version 2 june 1991",), ()),
    ("GPL-3.0", ("gnu general public license version 3 29 june 2007",), ()),
    ("GPL-2.0", ("gnu general public license version 2 june 1991",), ()),
    ("GPL-1.0", ("gnu general public license version 1 february 1989",), ()),
    ("GFDL-1.3", ("gnu free documentation license version 1 3",), ()),
    ("EUPL-1.2", ("european union public licence v 1 2",), ()),
    ("MPL-2.0", ("mozilla public license version 2 0", "covered software"), ()),
    ("MPL-1.1", ("mozilla public license version 1 1", "covered code"), ()),
    ("EPL-2.0", ("eclipse public license v 2 0",), ()),
    ("EPL-1.0", ("eclipse public license v 1 0",), ()),
    ("CDDL-1.1", ("common development and distribution license", "version 1 1"), ()),
    ("CDDL-1.0", ("common development and distribution license",), ("version 1 1",)),
    ("SSPL-1.0", ("server side public license version 1",), ()),
    ("BUSL-1.1", ("business source license 1 1",), ()),
    ("Elastic-2.0", ("elastic license 2 0",), ()),
    ("Apache-2.0", ("apache license version 2 0 january 2004",), ()),
    ("Apache-2.0", ("apache license version 2 0", "grant of copyright license"), ()),
    ("Apache-1.1", ("apache software license version 1 1",), ()),
    ("BSL-1.0", ("boost software license version 1 0", "permission is hereby granted free of charge"), ()),
    ("Unlicense", ("this is free and unencumbered software released into the public domain",), ()),
    ("CC0-1.0", ("cc0 1 0 universal",), ()),
    ("CC-BY-NC-SA-4.0", ("attribution noncommercial sharealike 4 0 international",), ()),
    ("CC-BY-NC-ND-4.0", ("attribution noncommercial noderivatives 4 0 international",), ()),
    ("CC-BY-NC-4.0", ("attribution noncommercial 4 0 international",), ()),
    ("CC-BY-ND-4.0", ("attribution noderivatives 4 0 international",), ()),
    ("CC-BY-SA-4.0", ("attribution sharealike 4 0 international",), ()),
    ("CC-BY-4.0", ("creative commons attribution 4 0 international",), ()),
    ("CC-BY-SA-3.0", ("attribution sharealike 3 0 unported",), ()),
    ("CC-BY-3.0", ("creative commons", "attribution 3 0 unported"), ()),
    ("OFL-1.1", ("sil open font license version 1 1",), ()),
    ("Artistic-2.0", ("the artistic license 2 0",), ()),
    ("WTFPL", ("do what the fuck you want to public license",), ()),
    ("PSF-2.0", ("python software foundation license version 2",), ()),
    ("UPL-1.0", ("the universal permissive license upl version 1 0",), ()),
    ("MS-PL", ("microsoft public license ms pl",), ()),
    ("MulanPSL-2.0", ("mulan permissive software license version 2",), ()),
    ("BlueOak-1.0.0", ("blue oak model license",), ()),
    ("Unicode-3.0", ("unicode license v3",), ()),
    ("Zlib", (
        "this notice may not be removed or altered from any source distribution",
        "altered source versions must be plainly marked as such"), ()),
    ("PostgreSQL", (
        "permission to use copy modify and distribute this software and its documentation for any purpose without fee "
        "and without a written agreement",), ()),
    ("NCSA", ("permission is hereby granted free of charge", "redistributions of source code must retain", "neither the names of"), ()),
    ("BSD-4-Clause", (_BSD, "all advertising materials mentioning features"), ()),
    ("BSD-3-Clause-Clear", (_BSD, "no express or implied licenses to any party s patent rights"), ()),
    ("BSD-3-Clause", (_BSD, "to endorse or promote products"), ()),
    ("BSD-2-Clause", (_BSD, "redistributions in binary form must reproduce"), ()),
    ("BSD-1-Clause", (_BSD, "redistributions of source code must retain"), ()),
    ("ISC", (_ISC + " provided that",), ()),
    ("ISC", ("to use copy modify and distribute this software for any purpose with or without fee is hereby granted provided that",), ()),
    ("0BSD", (_ISC,), ("provided that the above",)),
    ("X11", (_MIT, "except as contained in this notice the name"), ()),
    ("MIT", (_MIT, "this permission notice"), ()),
    ("MIT-0", (_MIT, "to deal in the software without restriction"), ("subject to the following conditions",)),
)  # fmt: skip
# What a file's own notice says where it does not hold the licence.
_NOTICES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Apache-2.0", ("licensed under the apache license version 2 0", "under the terms of the apache license version 2 0")),
    ("MPL-2.0", ("subject to the terms of the mozilla public license v 2 0",)),
    ("BSL-1.0", ("distributed under the boost software license version 1 0", "boost software license version 1 0")),
    ("EPL-2.0", ("terms of the eclipse public license v 2 0", "terms of the eclipse public license 2 0")),
    ("EPL-1.0", ("terms of the eclipse public license v1 0", "terms of the eclipse public license v 1 0")),
    ("MIT", ("licensed under the mit license", "released under the mit license", "distributed under the mit license",
        "under the terms of the mit license")),
    ("CC0-1.0", ("publicdomain zero 1 0",)),
)  # fmt: skip
_GNU_NOTICE = re.compile(
    r"(?:under|of) the (?:terms of the )?gnu (?P<kind>affero|lesser|library)? ?(?:general )?public license(?P<rest>.{0,240})"
)
_GNU_VERSION = re.compile(r"\b(?:version|v) ?(?P<version>3 0|2 1|2 0|1 0|[123])\b")
_LATER = re.compile(r"any later version|or later|or newer|at your option")
_GNU_NAMES = {"affero": "AGPL", "lesser": "LGPL", "library": "LGPL", None: "GPL"}
_CC_ADDRESS = re.compile(
    r"creativecommons\.org/(?:licenses/(by(?:-nc)?(?:-nd|-sa)?)/(\d\.\d)|publicdomain/(zero)/1\.0)"
)
_CC_SPELLED = re.compile(
    r"creative commons attribution((?: noncommercial)?(?: noderiv(?:ative)?s?)?(?: sharealike)?)"
    r"(?: licen[sc]e| version| v)* ?(\d) (\d)\b"
)
_CC_NAME = re.compile(r"(?i)\bCC[ -](BY(?:-NC)?(?:-ND|-SA)?)[ -](\d\.\d)\b")

# What people write for an identifier, folded as above.
_NAMES = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2 0": "Apache-2.0",
    "apache license 2 0": "Apache-2.0",
    "apache license version 2 0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "the apache license version 2 0": "Apache-2.0",
    "the apache software license version 2 0": "Apache-2.0",
    "mit": "MIT",
    "mit license": "MIT",
    "the mit license": "MIT",
    "expat": "MIT",
    "bsd 2 clause": "BSD-2-Clause",
    "simplified bsd": "BSD-2-Clause",
    "bsd 3 clause": "BSD-3-Clause",
    "bsd 3 clause license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "isc license iscl": "ISC",
    "mozilla public license 2 0 mpl 2 0": "MPL-2.0",
    "mpl 2 0": "MPL-2.0",
    "gplv2": "GPL-2.0",
    "gplv3": "GPL-3.0",
    "gnu general public license v2 gplv2": "GPL-2.0-only",
    "gnu general public license v2 or later gplv2": "GPL-2.0-or-later",
    "gnu general public license v3 gplv3": "GPL-3.0-only",
    "gnu general public license v3 or later gplv3": "GPL-3.0-or-later",
    "gnu lesser general public license v3 lgplv3": "LGPL-3.0-only",
    "gnu lesser general public license v3 or later lgplv3": "LGPL-3.0-or-later",
    "gnu affero general public license v3": "AGPL-3.0-only",
    "lgplv3": "LGPL-3.0",
    "the unlicense": "Unlicense",
    "public domain": "LicenseRef-public-domain",
    "python software foundation license": "PSF-2.0",
    "zlib libpng license": "Zlib",
}
_IDENTIFIER = re.compile(r"(?:LicenseRef-|DocumentRef-)?[A-Za-z0-9][A-Za-z0-9.\-]*\+?")
_UNIDENTIFIED = {
    "bsd",
    "gpl",
    "lgpl",
    "other",
    "proprietary",
    "see",
    "dual",
    "license",
    "none",
    "unknown",
    "commercial",
}

LICENSE_FILE = re.compile(
    r"(?i)^(?P<stem>(?:un)?licen[sc]es?|copying|copyright|ofl|mit-licen[sc]e|apache-licen[sc]e)"
    r"(?P<rest>(?:[.\-_](?!(?:py|js|ts|go|rs|java|c|h|cc|cpp|rb|php|cs|html?|css|json|ya?ml|sh|svg|png|spdx|header)$)[\w.\-]+)?)$"
)
_PLAIN_REST = re.compile(r"(?i)^(?:\.(?:txt|md|rst|markdown|adoc))?$")
MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml", "composer.json", "setup.cfg", "pom.xml", "DESCRIPTION")
_STATED = {
    "setup.cfg": r"(?m)^license[ \t]*=[ \t]*(\S[^\n]*)",
    "pom.xml": r"<license>[^<]{0,100}<name>([^<]{1,200})</name>",
    "DESCRIPTION": r"(?m)^License:[ \t]*(\S[^\n]*)",
}
_STATED_AS_FIELD = r"""(?m)^[ \t]*(?:\w+\.)?licen[sc]e[ \t]*[:=][ \t]*["']?([^"'\n,}]+)"""
MANIFEST_ENDINGS = (".gemspec", ".cabal", ".podspec", ".nimble")


def folded(text: str) -> str:
    """Return a text in lower case with everything but letters and digits folded to one space."""
    return _WORDS.sub(" ", text.lower()).strip()


def spdx_tag(head: str) -> str | None:
    """Return the licence expression of the first SPDX tag that begins a line or a comment, or None."""
    for match in _TAG.finditer(head):
        written = _EXPRESSION.match(match[1])
        expression = re.sub(r"\s+", " ", written[0]).strip().rstrip("-").strip() if written else ""  # "-->" ends XML
        if expression:
            return expression
    return None


def license_of_text(text: str) -> str | None:
    """Return the licence that a file's text is, by phrases; None if none is known.

    Of several the first in the text counts: a project's own stands before those of what it bundles, and a long
    licence's title before the ones that it quotes.
    """
    words = folded(text[:MAX_LICENSE_BYTES])
    found: dict[int, str] = {}
    for name, needed, without in _TEXTS:
        place = min(words.find(one) for one in needed)
        if place >= 0 and not any(one in words for one in without):
            found.setdefault(words.find(needed[0]), name)
    return found[min(found)] if found else license_of_notice(text)


def license_of_notice(head: str) -> str | None:
    """Return the licence that a file says it is under (`Licensed under the Apache License, Version 2.0`), or None."""
    if address := _CC_ADDRESS.search(head.lower()):
        return "CC0-1.0" if address[3] else f"CC-{address[1].upper()}-{address[2]}"
    if named := _CC_NAME.search(head):
        return f"CC-{named[1].upper()}-{named[2]}"
    words = folded(head)
    if spelled := _CC_SPELLED.search(words):
        kinds = [
            short
            for short, long in (("NC", "noncommercial"), ("ND", "noderiv"), ("SA", "sharealike"))
            if long in spelled[1]
        ]
        return f"CC-{'-'.join(['BY', *kinds])}-{spelled[2]}.{spelled[3]}"
    if match := _GNU_NOTICE.search(words):
        version = _GNU_VERSION.search(match["rest"])
        if version is not None:
            number = version["version"].replace(" ", ".")
            number = number if "." in number else number + ".0"
            later = "or-later" if _LATER.search(match["rest"], version.end()) else "only"
            return f"{_GNU_NAMES[match['kind']]}-{number}-{later}"
    for name, phrases in _NOTICES:
        if any(phrase in words for phrase in phrases):
            return name
    return None


def license_of_header(head: str) -> str | None:
    """Return the licence of a source file by the licence text or the notice in its first characters, or None."""
    lower = head.lower()
    if not any(word in lower for word in ("licen", "permission", "redistribution", "unencumbered", "misrepresented")):
        return None
    words = folded(head)
    for name, needed, without in _TEXTS:
        if name.startswith(("MIT", "BSD", "ISC", "0BSD", "X11", "Zlib", "Unlicense", "NCSA")) and (
            all(one in words for one in needed) and not any(one in words for one in without)
        ):
            return name
    return license_of_notice(head)


def license_of_name(name: str) -> str | None:
    """Return what package metadata names, as an SPDX expression; None if it names no licence that is known.

    An expression is kept as written, its older form with slashes (`MIT/Apache-2.0`) as a choice.
    """
    text = " ".join(name.split())
    known = _NAMES.get(folded(text)) or _NAMES.get(folded(text).removesuffix(" license"))
    if known:
        return known
    if re.fullmatch(r"[^\s/()]+(?:\s*/\s*[^\s/()]+)+", text):
        text = " OR ".join(part.strip() for part in text.split("/"))
    parts = re.findall(r"[^\s()]+", text)
    names = [part for part in parts if part not in ("AND", "OR", "WITH")]
    is_expression = len(names) * 2 - 1 == len(parts) and len(text) <= 200
    if not is_expression or not all(
        _IDENTIFIER.fullmatch(part) and part.lower() not in _UNIDENTIFIED for part in names
    ):
        return None
    return text


def license_of_manifest(name: str, data: bytes) -> str | None:
    """Return the licence expression that a package's metadata file states, or None."""
    text = data[:MAX_LICENSE_BYTES].decode("utf-8", "replace")
    try:
        if name == "pyproject.toml":
            return _of_pyproject(tomllib.loads(text))
        if name == "Cargo.toml":
            package = tomllib.loads(text).get("package")
            return _of_values([package.get("license")]) if isinstance(package, dict) else None
        if name in ("package.json", "composer.json"):
            return _of_json(json.loads(text))
    except (ValueError, RecursionError):
        return None
    if name == "pom.xml":
        text = text[max(text.find("<licenses>"), 0) :][:2000]
    pattern = _STATED.get(name, _STATED_AS_FIELD)
    match = re.search(pattern, text)
    return license_of_name(re.split(r"[|+]", match[1])[0] if name == "DESCRIPTION" else match[1]) if match else None


def _of_values(values: Sequence[object]) -> str | None:
    names = [license_of_name(value) for value in values if isinstance(value, str)]
    known = list(dict.fromkeys(name for name in names if name))
    return " OR ".join(f"({name})" if " " in name and len(known) > 1 else name for name in known) or None


def _of_json(document: object) -> str | None:
    if not isinstance(document, dict):
        return None
    stated = document.get("license", document.get("licenses"))
    many = stated if isinstance(stated, list) else [stated]
    return _of_values([one.get("type") if isinstance(one, dict) else one for one in many])


def _of_pyproject(document: dict[str, object]) -> str | None:
    tables: list[object] = [document.get("project")]
    tool = document.get("tool")
    tables += [tool[name] for name in ("poetry", "flit") if name in tool] if isinstance(tool, dict) else []
    for table in tables:
        if not isinstance(table, dict):
            continue
        stated = table.get("license")
        stated = stated.get("text") if isinstance(stated, dict) else stated
        if isinstance(stated, str) and (name := license_of_name(stated) or license_of_text(stated)):
            return name
        classifiers = table.get("classifiers")
        if isinstance(classifiers, list):
            ends = [str(one).rpartition(" :: ")[2] for one in classifiers if str(one).startswith("License :: ")]
            if known := _of_values([end for end in ends if folded(end) in _NAMES]):
                return known
    return None


def license_of_folder(files: Sequence[tuple[str, bytes]]) -> tuple[str, str] | None:
    """Return the licence of a folder and the file that says so, or None if none of its files speaks of one.

    Package metadata comes first, as only it tells a choice (OR) from a sum. Then the licence file with the plainest
    name; if all have names of their own (`LICENSE-MIT`, `LICENSE-APACHE`), all of them joined by AND.

    Args:
        files: Names (without folders) and first bytes of the licence files and package manifests in it.
    """
    for name, data in sorted(files):
        if is_manifest(name) and (stated := license_of_manifest(name, data)):
            return stated, name
    texts = []
    for name, data in sorted(files):
        match = LICENSE_FILE.match(name)
        if match is not None and not is_manifest(name):
            identified = license_of_text(data[:MAX_LICENSE_BYTES].decode("utf-8", "replace"))
            is_plain = bool(_PLAIN_REST.match(match["rest"]))
            texts.append((not is_plain, match["stem"].lower() == "copyright", identified is None, name, identified))
    if not texts:
        return None
    lesser = [one for one in texts if one[4] and one[4].startswith("LGPL")]
    if lesser and any(one[4] and one[4].startswith("GPL") for one in texts):
        return lesser[0][4] or UNKNOWN, lesser[0][3]  # COPYING beside COPYING.LESSER
    first = min(texts)
    if first[0] and len(texts) > 1:
        names = sorted({one[4] for one in texts if one[4]})
        return " AND ".join(names) or UNKNOWN, first[3]
    return first[4] or UNKNOWN, first[3]


def is_manifest(name: str) -> bool:
    """Whether a file name is that of a package's metadata."""
    return name in MANIFESTS or name.endswith(MANIFEST_ENDINGS)
