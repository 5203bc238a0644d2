"""Make `curate/filter/junk/model.json`: site furniture and the weights that tell it from main text.

    python benchmarks/fit_junk.py $CURATE_DATA

Learned from main texts that people verified and from what the same pages hold besides (`rule_documents.py`). Page kinds
count alike, whatever their number of pages. A phrase is furniture if lines of at least four sites are it, and five times
as many sites have it outside main text as inside. What shops say of their goods is none.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rule_documents import FURNITURE, GOOD, RuleDocument, load_documents

from curate.filter.junk.kernels import CHROME_LINE_WORDS
from curate.filter.junk.model import FILE, Counter, Lexicon, Scorer, features, fit, text_buffers, to_json

MIN_SITES = 4
PHRASE_RATIO = 5
RIDGE = 10.0
STOP_WORDS_PER_LANGUAGE = 40
NUM_FOLDS = 5
# What shops and lists of offers say in their main text as well: furniture on other pages, content on theirs.
_SHOP_WORDS = frozenset(("buy", "cart", "clearance", "deals", "featured", "gifts", "sale", "shop", "sold", "stock"))
_SHOP_PHRASES = frozenset(
    ("best sellers", "color", "learn more", "new", "new arrivals", "price", "quantity", "quick view", "reviews")
).union(("size", "specifications", "view all"))
_WORD = re.compile(r"\w+|©")


def stop_words(data: Path) -> tuple[str, ...]:
    """Return the most frequent words of each language's UDHR that its list of stop words holds, all in one tuple."""
    listed = json.loads((data / "08_wordlists" / "stopwords-iso.json").read_text(encoding="utf-8"))
    counts: dict[str, Tally[str]] = defaultdict(Tally)
    with gzip.open(data / "09_langid" / "udhr.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            language = (row["bcp47"] or "").partition("-")[0]
            if language in listed:
                counts[language].update(_WORD.findall(row["text"].lower()))
    chosen: set[str] = set()
    for language, words in sorted(counts.items()):
        known = frozenset(listed[language])
        frequent = [word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0])) if word in known]
        chosen.update(frequent[:STOP_WORDS_PER_LANGUAGE])
    return tuple(sorted(chosen))


def learn_lexicon(documents: Sequence[RuleDocument], stops: tuple[str, ...]) -> Lexicon:
    """Return the furniture phrases of the documents."""
    sites: dict[str, dict[str, set[str]]] = {GOOD: defaultdict(set), FURNITURE: defaultdict(set)}
    for document in documents:
        for line in set(document.text.split("\n")):
            inside = _WORD.findall(line.lower())
            if 0 < len(inside) <= CHROME_LINE_WORDS and not any(map(str.isdigit, "".join(inside))):
                sites[document.kind][" ".join(inside)].add(document.site)
    good, other = sites[GOOD], sites[FURNITURE]
    phrases = sorted(
        phrase
        for phrase, held in other.items()
        if len(held) >= MIN_SITES
        and len(good.get(phrase, ())) * PHRASE_RATIO <= len(held)
        and phrase not in _SHOP_PHRASES
        and _SHOP_WORDS.isdisjoint(phrase.split())
    )
    return Lexicon(stops, tuple(phrases))


def feature_rows(documents: Sequence[RuleDocument], lexicon: Lexicon) -> NDArray[np.float64]:
    """Return the features of documents with a lexicon."""
    return features(Counter(lexicon)(*text_buffers([document.text for document in documents])))


def fit_documents(documents: Sequence[RuleDocument], stops: tuple[str, ...]) -> tuple[Lexicon, Scorer]:
    """Return the lexicon of documents, and weights fitted on features whose lexicon has not seen the document's site."""
    rows = np.zeros((len(documents), len(feature_rows(documents[:1], Lexicon(stops, ()))[0])))
    folds = np.array([document.fold for document in documents])
    for fold in sorted(set(folds.tolist())):
        others = [document for document in documents if document.fold != fold]
        here = np.flatnonzero(folds == fold)
        rows[here] = feature_rows([documents[place] for place in here], learn_lexicon(others, stops))
    good = np.array([document.kind == GOOD for document in documents])
    sizes = Tally(document.group for document in documents if document.kind == GOOD)
    weights = np.array([1 / max(sizes[document.group], 10) if document.kind == GOOD else 0 for document in documents])
    weights[~good] = weights.sum() / max((~good).sum(), 1)
    return learn_lexicon(documents, stops), fit(rows, good, weights, RIDGE)


def out_of_fold_scores(documents: Sequence[RuleDocument], stops: tuple[str, ...]) -> NDArray[np.float64]:
    """Return `main_text_score` of each document by a model that has not seen its site; planted ones by the whole model."""
    scores = np.zeros(len(documents))
    learned = [document for document in documents if document.fold >= 0]
    for fold in sorted({document.fold for document in documents}):
        lexicon, scorer = fit_documents([document for document in learned if document.fold != fold], stops)
        here = [place for place, document in enumerate(documents) if document.fold == fold]
        scores[here] = scorer(feature_rows([documents[place] for place in here], lexicon))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of real inputs")
    data = parser.parse_args().data
    documents = [one for one in load_documents(data) if one.kind in (GOOD, FURNITURE) and one.text.strip()]
    stops = stop_words(data)
    lexicon, scorer = fit_documents(documents, stops)
    kinds = Tally(document.kind for document in documents)
    card = {
        "made_by": "benchmarks/fit_junk.py",
        "documents": {kind: kinds[kind] for kind in (GOOD, FURNITURE)},
        "sites": len({document.site for document in documents}),
        "from": "02_gold (WCXB CC-BY-4.0, scrapinghub MIT, zh_handcrafted MIT, readability Apache-2.0, DAnIEL, goose3, "
        "newspaper4k, template_docs) and labelled pages of 03_raw_html: words and short phrases of site furniture, no text",
        "stop_words": "stopwords-iso (MIT), those frequent in the Universal Declaration of Human Rights",
    }
    FILE.write_text(to_json(lexicon, scorer, card), encoding="utf-8")
    print(f"{len(lexicon.chrome_phrases)} phrases, {len(lexicon.stop_words)} stop words")


if __name__ == "__main__":
    main()
