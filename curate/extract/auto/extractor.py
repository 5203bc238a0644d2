"""HTML to main text by our own block model: one pass over the bytes, features of each block, boosted trees, the best cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from curate.extract.html import UNUSABLE, HtmlExtractor

if TYPE_CHECKING:
    from curate.extract.auto.model import Model
    from curate.extract.auto.scan import Page, Scanner

FEW_WORDS = 30  # in the text that the markup holds, below which text inside scripts' JSON is looked at
BETA = {"default": 1.0, "precision": 0.5, "recall": 2.0}


class Auto(HtmlExtractor):
    """Main text by the trained block model that comes with the package (its card: `curate/extract/auto/model.json`).

    A page's metadata gain `extract_confidence`, the word F1 that the model expects of its choice, 0 to 1, which the step
    `extraction` turns into a column for rules; or `extract_from: json` where a page holds its text in a script only, of
    which the model knows nothing.

    Attributes:
        mode: default, or more of one and less of the other: precision, recall. (The cut maximises expected F1, or F with
            beta 0.5 or 2.)
        format: text, or markdown: heading marks, fences around code, tables with bars.
        hidden_text: Whether text that the page hides (hidden, display: none) may stay: answers that open on a click, but also
            spam and instructions to machines. It always may where it is most of the main text.
        json_text: Whether text inside scripts (articleBody, preloaded state) is read where the markup holds next to none.
    """

    version: ClassVar[int] = 4
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "numba", "numpy", "resiliparse")

    mode: Literal["default", "precision", "recall"] = "default"
    format: Literal["text", "markdown"] = "text"
    hidden_text: bool = False
    json_text: bool = True

    def model_digest(self) -> str:
        """Return the sha256 of the model: part of every key."""
        from curate.extract.auto.model import shipped_digest

        return shipped_digest()

    def prepare(self) -> None:
        """Load the model and compile the kernels: the first time on a machine that takes most of a minute."""
        said = "The same is said twice, in two places, so that looking for repeats is compiled as well as all the rest of it."
        self.main_text(f"<article><section><p>{said}</p></section><section><p>{said}</p></section></article>", "")

    def main_text(self, html: str, url: str) -> tuple[str | None, dict[str, Any]]:
        """Return the main text of a decoded page, and the confidence in it."""
        model, scanner = _tools()
        return self.judged_text(model, scanner(html), html, url)

    def judged_text(self, model: Model, page: Page, html: str, url: str) -> tuple[str | None, dict[str, Any]]:
        """Return the same for a scanned page by a given model."""
        from curate.extract.auto.render import render
        from curate.extract.auto.tags import BLOCK_WORDS

        judgement = model.judge(page, url, beta=BETA[self.mode], hidden_text=self.hidden_text)
        text = UNUSABLE.sub(" ", render(page, judgement.keep, self.format == "markdown"))
        facts: dict[str, Any] = {"extract_confidence": round(judgement.confidence, 4)}
        if self.json_text and page.blocks[judgement.keep, BLOCK_WORDS].sum() < FEW_WORDS:
            from curate.extract.auto.structured import structured_text

            hidden = structured_text(html)
            if hidden is not None and len(hidden) > len(text):
                return UNUSABLE.sub(" ", hidden), {"extract_from": "json"}
        return text or None, facts


_made: list[tuple[Model, Scanner]] = []


def _tools() -> tuple[Model, Scanner]:
    """Return this process's model and scanner; the scanner keeps working memory."""
    if not _made:
        from curate.extract.auto.model import shipped_model
        from curate.extract.auto.scan import Scanner

        model = shipped_model()
        _made.append((model, Scanner(model.stop_words)))
    return _made[0]
