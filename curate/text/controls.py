"""What no text holds: control characters, terminal codes, surrogates."""

from __future__ import annotations

import re

TERMINAL_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")  # ECMA-48 CSI; OSC
# C0 but tab and line feed, DEL, what of C1 means nothing in windows-1252 either, deprecated format characters
# (U+206A-206F), interlinear annotation (U+FFF9-FFFB), byte order mark, noncharacters. Joiners (U+200C, U+200D) and
# direction marks (U+200E, U+200F, U+202A-202E, U+2066-2069) carry meaning and stay.
CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u206a-\u206f\ufff9-\ufffb\ufeff\ufdd0-\ufdef\ufffe\uffff]")
SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
