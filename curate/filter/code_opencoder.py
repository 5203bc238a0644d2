"""What OpenCoder measures on code of every language (Huang et al. 2024, arXiv:2411.04905, appendix; OpenCoder-llm/opc_data_filtering).

The general set of `pipeline/code_filter_config.py`, key `others`, and of the set for Python the rules that decide alike every
time. Left out: the Python rule that a file with little logic goes with a probability of 0.8, drawn anew at each run, and the sets
for C, C++, C#, Go, HTML, Java and JavaScript.

Lines here end with their line feed, which counts as a character of theirs. Words are runs of letters and digits, or of other signs, of
the text in small letters after ASCII punctuation became blanks and NFKC was applied. Shares are rounded to eight places, as there.
"""

from __future__ import annotations

import ast
import re
import string
import unicodedata
import warnings
from collections import Counter

import regex

from curate.filter.code_comments import Parts

Values = dict[str, float | int | None]

COLUMNS = {
    "num_code_chars": "int64",
    "num_code_bytes": "int64",
    "num_code_words": "int64",
    "num_code_lines": "int64",
    "code_mean_word_length": "float64",
    **{f"code_top_{n}gram_fraction": "float64" for n in (2, 3, 4)},
    **{f"code_repeated_{n}gram_fraction": "float64" for n in range(5, 11)},
    "code_repeated_line_fraction": "float64",
    "code_replacement_char_fraction": "float64",
    "code_letter_fraction": "float64",
    "code_digit_fraction": "float64",
    "code_white_space_fraction": "float64",
    "code_comment_fraction": "float64",
    "code_long_string_line_fraction": "float64",
    "code_string_char_fraction": "float64",
    "code_long_word_char_fraction": "float64",
    "code_hex_word_char_fraction": "float64",
    "code_prompt_comment_fraction": "float64",
    "code_assert_line_fraction": "float64",
    "code_is_encoded_data": "int64",
    "code_is_generated": "int64",
    "python_parses": "int64",
    "python_has_variables": "int64",
    "python_function_fraction": "float64",
    "python_simple_function_fraction": "float64",
    "python_pass_fraction": "float64",
    "python_import_fraction": "float64",
    "python_print_fraction": "float64",
}

_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_SPACE = re.compile(r"\s+")
_WORD = regex.compile(r"\w+|[^\w\s]+")  # not re: marks belong to words
_FULL_WIDTH = {chr(ord(sign) + 0xFEE0): " " for sign in string.punctuation} | dict.fromkeys("“”‘’《》【】「」。、", " ")
_CONTROLS = dict.fromkeys(map(chr, (*range(8), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x202C)), "")
_TO_BLANKS = str.maketrans(
    dict.fromkeys(string.punctuation, " ") | _FULL_WIDTH | _CONTROLS | dict.fromkeys("\u2009\u200b", " ")
)
_TRIPLE = r"'''([\s\S]*?)'''|\"\"\"([\s\S]*?)\"\"\""
_ANY_STRING = re.compile(rf"{_TRIPLE}|'([\s\S]*?)'|\"([\s\S]*?)\"")
_LINE_STRING = re.compile(rf"{_TRIPLE}|'([^\n]*?)'|\"([^\n]*?)\"")
_HEX = regex.compile(r"\b0[xX][0-9a-fA-F]+\b")
_URL = re.compile(r"https?://\S+")
_ENCODED = (
    re.compile(r"[a-zA-Z0-9+/\n=]{64,}"),
    re.compile(r"(?:\b(?:0x|\\x)?[0-9a-fA-F]{2}(?:,|\b\s*)){8,}"),
    re.compile(r"(?:\\u[0-9a-fA-F]{4}){8,}"),
)
_GENERATED = re.compile(r"generate|autogen|automatically generated|do not edit", re.IGNORECASE)
_LONG_STRING = 20  # words
_LONG_WORD = 20  # characters


def measure(text: str, parts: Parts, language: str, comment_fraction: float | None) -> Values:
    """Return the columns of COLUMNS for a file; null where a share is one of nothing, and where a column is Python's alone.

    Args:
        text: The file.
        parts: Its code and comments.
        language: In small letters.
        comment_fraction: For Python, where it counts docstrings; else None.
    """
    lines = _LINE.findall(text)
    found: Values = dict.fromkeys(COLUMNS)
    found |= _of_characters(text, lines)
    found |= _of_words([word for line in lines for word in _words(line)])
    code_lines = [line for line in _LINE.findall(parts.code) if line.strip()]
    found |= _of_code(parts, code_lines)
    commented = len(parts.comments) / len(text) if text else None
    found["code_comment_fraction"] = _round(comment_fraction if comment_fraction is not None else commented)
    if lines:
        prompts = sum(_is_prompt(line) for line in _LINE.findall(parts.comments) if line.strip())
        found["code_prompt_comment_fraction"] = _round(prompts / len(lines))
    if language == "python":
        found |= _of_python(text, code_lines)
    return found


def line_sizes(text: str) -> list[int]:
    """Return the characters of each line, its line feed among them."""
    return [len(line) for line in _LINE.findall(text)]


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 8)


def _words(line: str) -> list[str]:
    line = _SPACE.sub(" ", line.translate(_TO_BLANKS).lower().strip())
    words: list[str] = _WORD.findall(unicodedata.normalize("NFKC", line))
    return words


def _is_prompt(line: str) -> bool:
    lowered = line.lower()
    return "your code here" in lowered or "fixme" in lowered or "todo" in lowered


def _of_characters(text: str, lines: list[str]) -> Values:
    visible = _SPACE.sub("", text)
    letters, digits = sum(map(str.isalpha, visible)), sum(map(str.isdigit, visible))
    encoded = [len(match.group()) for pattern in _ENCODED for match in pattern.finditer(text)]
    return {
        "num_code_chars": len(text),
        "num_code_bytes": len(text.encode("utf-8", "surrogatepass")),
        "num_code_lines": len(lines),
        "code_replacement_char_fraction": _round(text.count("\ufffd") / len(text)) if text else None,
        "code_letter_fraction": _round(letters / len(visible)) if visible else 0.0,
        "code_digit_fraction": _round(digits / len(visible)) if visible else 1.0,
        "code_white_space_fraction": _round((len(text) - len(visible)) / len(text)) if text else 1.0,
        "code_is_encoded_data": int(max(encoded, default=0) > 1024 or sum(encoded) > 0.5 * len(text)),
        "code_is_generated": int(_GENERATED.search(text[:200]) is not None),
    }


def _of_words(words: list[str]) -> Values:
    """Return the measures of words and n-grams: n-grams are numbered, each by its first words' number and its last word's."""
    import numpy as np

    known: dict[str, int] = {}
    codes = np.array([known.setdefault(word, len(known)) for word in words], np.int64)
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    total = int(lengths.sum())
    reach = np.concatenate(([0], np.cumsum(lengths)))
    found: Values = {
        "num_code_words": len(words),
        "code_mean_word_length": _round(total / len(words)) if words else None,
    }
    grams = codes
    for n in range(2, 11):
        grams = grams[: max(len(codes) - n + 1, 0)] * max(len(known), 1) + codes[n - 1 :]
        _, first, grams, counts = np.unique(grams, return_index=True, return_inverse=True, return_counts=True)
        share = 0.0
        if n < 5:
            if len(counts) and counts.max() > 1:
                start = first[counts == counts.max()].min()  # of the most frequent ones that which comes first
                share = int(reach[start + n] - reach[start]) * int(counts.max()) / total
            found[f"code_top_{n}gram_fraction"] = _round(share)
        else:
            starts = np.flatnonzero(counts[grams] > 1)
            covered = np.zeros(len(words) + 1, np.int64)
            np.add.at(covered, starts, 1)
            np.add.at(covered, starts + n, -1)
            if total:
                share = int(lengths[np.cumsum(covered[:-1]) > 0].sum()) / total
            found[f"code_repeated_{n}gram_fraction"] = _round(share)
    return found


def _of_code(parts: Parts, code_lines: list[str]) -> Values:
    found: Values = {}
    if code_lines:
        bare = [_SPACE.sub("", line) for line in code_lines]
        again = sum(count for line, count in Counter(bare).items() if count > 1 and len(line) != 1 and line != "},")
        found["code_repeated_line_fraction"] = _round(again / len(bare))
        strings = (group for match in _ANY_STRING.findall(parts.code) for group in match if group)
        long = sum(len(_WORD.findall(line)) > _LONG_STRING for value in strings for line in value.split("\n"))
        found["code_long_string_line_fraction"] = _round(long / len(code_lines))
        found["code_assert_line_fraction"] = _round(
            sum("assert" in line.lower() for line in code_lines) / len(code_lines)
        )
    if parts.code:
        values = [group for match in _LINE_STRING.findall(parts.code) for group in match if group]
        size = len(parts.code)
        words = (word for value in values for word in value.split() if len(word) > _LONG_WORD)
        found["code_string_char_fraction"] = _round(sum(map(len, values)) / size)
        found["code_long_word_char_fraction"] = _round(sum(len(word) for word in words if not _URL.search(word)) / size)
        found["code_hex_word_char_fraction"] = _round(sum(map(len, _HEX.findall(parts.code))) / size)
    return found


def _of_python(text: str, code_lines: list[str]) -> Values:
    num_lines = len(code_lines)
    found: Values = {}
    for name, sought in (("pass", "pass"), ("import", "import")):
        share = sum(sought in line.lower() for line in code_lines) / num_lines if num_lines else 0.0
        found[f"python_{name}_fraction"] = _round(share)
    found["python_print_fraction"] = (
        _round(sum("print" in line for line in code_lines) / num_lines) if num_lines else None
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found | {"python_parses": 0}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found |= {"python_parses": 1, "python_has_variables": int(_has_variables(tree))}
    if num_lines:
        simple = sum(len(node.body) == 1 and isinstance(node.body[0], ast.Return) for node in functions)
        found["python_function_fraction"] = _round(len(functions) / num_lines)
        found["python_simple_function_fraction"] = simple / num_lines
    return found


def _has_variables(tree: ast.AST) -> bool:
    """Whether a name is assigned, a loop has a plain variable, or a function an argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) for target in node.targets):
            return True
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            return True
        if isinstance(node, ast.FunctionDef) and node.args.args:
            return True
    return False
