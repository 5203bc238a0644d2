"""What a tokenizer makes of the corpus: tokens for each word, bytes for each token, by source and language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from curate.report.run import RunFolder

MAX_LANGUAGES = 12  # shown of a source; report.json sums the others up as the page does


def fertility(run: RunFolder) -> dict[str, Any] | None:
    """Return the counts and ratios of the whole corpus, and of each source by language; None before encoding.

    Every document that was encoded is counted, also those for validation. Marks around documents are no tokens here.
    """
    counted = dict(run.manifest.get("tokenizer") or {}).get("fertility") or {}
    sources = {source: languages for source, languages in counted.items() if languages}
    if not sources:
        return None
    every: dict[str, Counter[str]] = {}
    for languages in sources.values():
        for language, counts in languages.items():
            every.setdefault(language, Counter()).update(counts)
    return {
        "total": ratios(_sum(every)),
        "sources": {
            source: {"total": ratios(_sum(languages)), "languages": _by_language(languages)}
            for source, languages in sources.items()
        },
        "languages": _by_language(every),
    }


def ratios(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the counts with what they say: tokens per word and per character, bytes per token, shares of the tokens."""

    def share(part: str, whole: str) -> float | None:
        return counts[part] / counts[whole] if counts[whole] else None

    return {
        **counts,
        "tokens_per_word": share("tokens", "words"),
        "bytes_per_token": share("bytes", "tokens"),
        "tokens_per_character": share("tokens", "characters"),
        "byte_share": share("byte_tokens", "tokens"),
        "unknown_share": share("unknown_tokens", "tokens"),
    }


def _by_language(languages: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, Any]]:
    """Return the languages with the most tokens first, what is left behind them as one."""
    order = sorted(languages, key=lambda language: (-languages[language]["tokens"], language))
    shown = {language: ratios(languages[language]) for language in order[:MAX_LANGUAGES]}
    if rest := order[MAX_LANGUAGES:]:
        shown[f"{len(rest)} more"] = ratios(_sum({language: languages[language] for language in rest}))
    return shown


def _sum(languages: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in languages.values():
        total.update(counts)
    return dict(total)
