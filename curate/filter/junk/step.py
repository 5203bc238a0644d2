"""Junk of the web by measures of our own: site furniture, pages that say there is none, lists of goods, spam, machine text.

The published rule sets judge layout: short lines, few full stops, repeated words. Manuals, forums and lists of good pages have
those too, and go by the dozen (`benchmarks/results/rules.md`). These measures look for what junk is made of instead, and
ask at the same time how much prose there is:

- *Prose*: lines of 8 words or more with punctuation and function words, and shorter sentences.
- *Site furniture*: lines such as "about us" or "login", from a table learned from real pages with their main text left
  out, and a score (logistic, 14 features) that tells main text from what stands around it.
- *Soft 404*, *machine-made text*: phrases, in the languages of `phrases.py`.
- *Lists of goods*: prices with hardly a sentence between them.
- *Spam*: lines of words that nothing holds together; sentences that differ only in the words put into them; the same two
  words in every line.

Languages: the table of function words holds 58 of them, furniture was learned from pages in English, German, Chinese, Polish,
Greek, Russian, Portuguese and some others; a text in which the table finds none is not scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from curate.filter.bounds import AtLeastNumber, AtLeastShare, AtMostNumber, AtMostShare, Filter
from curate.stage import Rule

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_LEAST_FURNITURE = (
    0.035  # of the lines; a list without any is a list, and a text in letters that nobody listed is a text
)
_MIN_PRICES = 5  # below that a text is no list of goods
_MIN_TOP_WORDS = 100  # words of prose from which the most frequent ones say something


class Junk(Filter):
    """Measures of junk, a rule for each. Every threshold is a number, a map by language, or off.

    Attributes:
        min_main_text_score: Of site furniture the score is near 0, of main text near 1. Only texts are scored of which one line in
            28 is furniture by the table: lists that hold none, and languages that the table does not know, are not judged.
        min_prose_words: Words in lines of prose. Off unless set.
        min_words_beside_not_found: Prose words that a text must have if one of its first 80 words begins a phrase that
            says that there is no such page; others have none to show.
        min_prose_words_per_price: Of a text with five prices or more. Off unless set (1 finds all lists of goods without a
            sentence): a catalogue is the main text of its page, and people label it so.
        max_word_salad_fraction: Words in lines of 8 words or more with no function word and no mark between them.
        max_template_fraction: Words in sentences of prose (8 words or more) whose function words stand in the same order
            in two other sentences. References of programs reach a half.
        max_top_words_fraction: The two most frequent words that are no function words, in prose of 100 words or more.
        max_machine_marks: Phrases of assistants ("as an AI language model") and of templates left unfilled. A text may
            quote one.
    """

    version: ClassVar[int] = 1
    adds: ClassVar[Mapping[str, str]] = {
        "num_prose_words": "int64",
        "prose_fraction": "float64",
        "chrome_line_fraction": "float64",
        "main_text_score": "float64",
        "words_beside_not_found": "int64",
        "prose_words_per_price": "float64",
        "word_salad_fraction": "float64",
        "template_fraction": "float64",
        "top_words_fraction": "float64",
        "num_machine_marks": "int64",
    }
    decides: ClassVar[tuple[str, ...]] = (
        "min_main_text_score",
        "min_prose_words",
        "min_words_beside_not_found",
        "min_prose_words_per_price",
        "max_word_salad_fraction",
        "max_template_fraction",
        "max_top_words_fraction",
        "max_machine_marks",
        "by",
    )

    min_main_text_score: AtLeastShare = 0.35
    min_prose_words: AtLeastNumber = None
    min_words_beside_not_found: AtLeastNumber = 80.0
    min_prose_words_per_price: AtLeastNumber = None
    max_word_salad_fraction: AtMostShare = 0.5
    max_template_fraction: AtMostShare = 0.6
    max_top_words_fraction: AtMostShare = 0.2
    max_machine_marks: AtMostNumber = 1.0

    def model_digest(self) -> str:
        """Return the sha256 of the table of furniture and of the weights."""
        from curate.filter.junk.model import shipped_digest

        return shipped_digest()

    def prepare(self) -> None:
        """Load the model and compile the kernel."""
        from curate.filter.junk.model import features, shipped, text_buffers

        counter, scorer = shipped()
        scorer(features(counter(*text_buffers(["a word"]))))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of `adds`; null where a text has too little of something to be measured by it."""
        import numpy as np
        import pyarrow as pa

        from curate.filter.junk.model import features, shipped

        counter, scorer = shipped()
        counts = counter(*_buffers(batch["text"]))
        words, prose = counts["words"], counts["prose_words"]
        furniture = counts["chrome_lines"] / np.maximum(counts["lines"], 1)
        columns = {
            "num_prose_words": pa.array(prose),
            "prose_fraction": pa.array(prose / np.maximum(words, 1)),
            "chrome_line_fraction": pa.array(furniture),
            "main_text_score": pa.array(scorer(features(counts)), mask=furniture < _LEAST_FURNITURE),
            "words_beside_not_found": pa.array(prose, mask=counts["not_found"] == 0),
            "prose_words_per_price": pa.array(
                prose / np.maximum(counts["prices"], 1), mask=counts["prices"] < _MIN_PRICES
            ),
            "word_salad_fraction": pa.array(counts["salad_words"] / np.maximum(words, 1)),
            "template_fraction": pa.array(
                np.minimum(counts["template_words"] / np.maximum(words, 1), 1.0)
            ),  # where characters are words, they count half in `words`
            "top_words_fraction": pa.array(
                counts["top_prose_words"] / np.maximum(prose, 1), mask=prose < _MIN_TOP_WORDS
            ),
            "num_machine_marks": pa.array(counts["machine_marks"]),
        }
        return pa.record_batch(columns)

    def rules(self, block: str) -> tuple[Rule, ...]:
        """Return the rules that are on."""
        bounds = (
            ("soft_404", "words_beside_not_found", self.min_words_beside_not_found, None),
            ("product_list", "prose_words_per_price", self.min_prose_words_per_price, None),
            ("word_salad", "word_salad_fraction", None, self.max_word_salad_fraction),
            ("template_spam", "template_fraction", None, self.max_template_fraction),
            ("keyword_stuffing", "top_words_fraction", None, self.max_top_words_fraction),
            ("machine_made", "num_machine_marks", None, self.max_machine_marks),
            ("site_furniture", "main_text_score", self.min_main_text_score, None),
            ("num_prose_words", "num_prose_words", self.min_prose_words, None),
        )
        return tuple(
            self.rule(f"{block}.{name}", column, least, most)
            for name, column, least, most in bounds
            if least is not None or most is not None
        )


def _buffers(text: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes and the offsets of a large_string column; null has no bytes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if text.null_count:
        text = pc.fill_null(text, "")
    if text.type != pa.large_string():
        text = text.cast(pa.large_string())
    _, offsets, data = text.buffers()
    places = np.frombuffer(offsets, np.int64, len(text) + 1, text.offset * 8)
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), places
