"""HTML to main text by jusText."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from pydantic import Field

from curate.extract.html import HtmlExtractor, Page, page_language

MOST_TAGS = 20_000  # jusText looks for the neighbours of each short paragraph anew: time quadratic in them


class JusText(HtmlExtractor):
    """Main text by jusText (Pomikálek 2011, "Removing boilerplate and duplicate content from web corpora", chapter 3).

    Attributes:
        stop_words: Name of one of its lists, such as English; auto takes the list of the page's lang attribute, and none
            (its language-independent mode) where there is no list.
        max_elements: Most tags in a page. A page with more raises.
    """

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("charset-normalizer", "jusText", "lxml", "lxml_html_clean", "resiliparse")

    stop_words: str = "auto"
    max_elements: int = Field(default=MOST_TAGS, ge=1)

    def main_text(self, html: str, url: str) -> tuple[str | None, dict[str, Any]]:
        """Return the paragraphs that jusText calls good, and what had to be done to get them."""
        import justext
        from lxml.etree import ParserError

        del url
        name = _list_name(page_language(html)) if self.stop_words == "auto" else self.stop_words
        words = _stop_list(name)
        page = Page(html)
        limits = {} if words else {"stopwords_low": 0.0, "stopwords_high": 0.0}  # as jusText's own command does
        try:
            paragraphs = justext.justext(page.html, words, **limits)
        except ParserError:  # no element at all
            return None, page.metadata
        text = "\n".join(paragraph.text for paragraph in paragraphs if not paragraph.is_boilerplate)
        return text or None, page.metadata


@lru_cache(maxsize=64)
def _stop_list(name: str) -> frozenset[str]:
    if not name:
        return frozenset()
    import justext

    words: frozenset[str] = justext.get_stoplist(name)
    return words


def _list_name(language: str | None) -> str:
    """Return the name of jusText's list for a language, or "" if it has none."""
    return LISTS.get(language or "", "")


LISTS = {
    "af": "Afrikaans", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bs": "Bosnian",
    "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ka": "Georgian",
    "kk": "Kazakh", "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "la": "Latin", "lt": "Lithuanian",
    "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam", "mr": "Marathi", "ms": "Malay", "nl": "Dutch",
    "nb": "Norwegian_Bokmal", "no": "Norwegian_Bokmal", "nn": "Norwegian_Nynorsk", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese",
}  # fmt: skip
