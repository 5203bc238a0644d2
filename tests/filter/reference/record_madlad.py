"""Run the sentence rules 2 and 5 of Dolma 3's datamap-rs once, on the documents of `record_refinedweb.py` and on planted ones.

    python record_madlad.py CHECKOUT FOLDER     # allenai/datamap-rs; a folder to build in, with cargo and its packages

Builds the unchanged functions of `src/map_fxn.rs` into a program of their own: the whole needs models. The answers go to
madlad.json.gz: for each document its place and digest, the number of sentences, those that rule 2 marks, those that rule 5
marks, and whether the document stays. No text is kept.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

from record_refinedweb import DATA, HERE, digest, real

TWELVE = "Aa Bb Cc Dd Ee Ff gg hh ii jj kk ll"
MANY = "Aa Bb Cc Dd Ee Ff Gg hh ii jj kk ll"
PLAIN = "these words are all small. "
PLANTED = (
    "",
    "one. two! three? four",
    "one. two! three? four... five",
    "one.two.three. four. five. six. ",
    PLAIN * 4 + MANY,
    PLAIN * 5 + MANY,
    PLAIN * 4 + TWELVE,  # six of twelve
    PLAIN * 4 + MANY.replace(" ll", ""),  # eleven words
    PLAIN * 4 + MANY.replace("Aa", "don't").replace("hh", "U.S."),
    PLAIN * 4 + "\u00c9a \u4e2d\u6587 X1 3rd Bb Cc Dd Ee Ff Gg a-b c_d 1,000.5",
    PLAIN * 4 + "go to Facebook now",
    PLAIN * 5 + "go to Facebook now",
    PLAIN * 4 + "see Vol. 3",
    PLAIN * 4 + "see Vol\\. 3",
    PLAIN * 4 + "the end |",
    PLAIN * 4 + "the end nr.",
    PLAIN * 4 + "a b c d e f g h i j k",
    PLAIN * 4 + "x abc def ghi jkl mno pqr stu vwx yza",
    PLAIN * 8 + "ownload! mp3",
    PLAIN * 9 + "ownload! mp3",
)

_MAIN = """
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let list = std::fs::read_to_string(&args[1]).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    let last = lines.len() - 4;
    let me = Madlad400SentenceAnnotator {
        case_upper_bound: 0.5, case_tok_lower_bound: 12, char_len_lower_bound: 20, char_len_upper_bound: 500,
        tech_lower_bound: 0.2, tech_charset: HashSet::new(), cursed_inclusions: AhoCorasick::new(&lines[..last]),
        cursed_regexes: lines[last..].iter().map(|line| Regex::new(line).unwrap()).collect(),
    };
    for text in std::fs::read_to_string(&args[2]).unwrap().split('\\u{1e}') {
        SPLIT
        let two: Vec<usize> = (0..sentences.len()).filter(|i| me.list_case(sentences[*i]).unwrap()).collect();
        let five: Vec<usize> = (0..sentences.len()).filter(|i| me.check_cursed_regexes(sentences[*i]).unwrap()).collect();
        println!("[{}, {:?}, {:?}]", sentences.len(), two, five);
    }
}
"""
_HEAD = """
use std::collections::HashSet; use aho_corasick::AhoCorasick; use regex::Regex; use unicode_segmentation::UnicodeSegmentation;
type Error = std::io::Error;
struct Madlad400SentenceAnnotator {
    case_upper_bound: f32, case_tok_lower_bound: usize, char_len_lower_bound: usize, char_len_upper_bound: usize,
    tech_lower_bound: f32, tech_charset: HashSet<char>, cursed_inclusions: AhoCorasick, cursed_regexes: Vec<Regex>,
}
"""
_CARGO = '[package]\nname = "rules"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\naho-corasick = "0.7"\nregex = "1"\n'


def build(checkout: Path, folder: Path) -> Path:
    """Return the program, built from the checkout's functions."""
    source = (checkout / "src/map_fxn.rs").read_text(encoding="utf-8")
    start = source.index("impl Madlad400SentenceAnnotator {")
    rules = source[start : source.index("    pub fn document_consistency", start)] + "}\n"
    start = source.index("let sentence_splitter = Regex::new")
    splitter = source[start : source.index("\n", start)]
    start = source.index("let sentences: Vec<_> = sentence_splitter", start)
    split = source[start : source.index(".collect();", start)].replace("(&text)", "(text)") + ".collect();"
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(_CARGO + 'unicode-segmentation = "1"\n')
    (folder / "src/main.rs").write_text(_HEAD + rules + _MAIN.replace("SPLIT", splitter + split), encoding="utf-8")
    subprocess.run(["cargo", "build", "--release", "--offline"], cwd=folder, check=True)
    return folder / "target/release/rules"


def main() -> None:
    """Write the recording."""
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    program = build(checkout, folder)
    (folder / "cursed.txt").write_bytes(gzip.decompress((checkout / "banlists/madlad400_cursed.txt.gz").read_bytes()))
    documents = list(real(DATA))
    texts = [text.replace("\x1e", "") for *_, text in documents] + list(PLANTED)
    (folder / "texts").write_bytes("\x1e".join(texts).encode())
    printed = subprocess.run(
        [program, folder / "cursed.txt", folder / "texts"], capture_output=True, text=True, check=True
    )
    answers = []
    for line in printed.stdout.splitlines():
        sentences, two, five = json.loads(line)
        # `Madlad400RuleFilter` with remove_too_short, rules_to_remove [[2, 5]] and threshold 0.2
        stays = sentences >= 5 and len({*two, *five}) < sentences * 0.2
        answers.append([sentences, len(two), len(five), stays])
    rows = [[*place, digest(text), *answer] for (*place, text), answer in zip(documents, answers, strict=False)]
    answer = {"implementation": "datamap-rs f7717942", "real": rows, "planted": answers[len(rows) :]}
    with gzip.GzipFile(HERE / "madlad.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(answer, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
