"""Text that this program did not write, inside a prompt: hypotheses, logs, names, answers of a model.

    <data-5f1c9a3e77d0b214 of="hypothesis of round 3">
    ...
    </data-5f1c9a3e77d0b214>

The mark is a hash of the text, and the text cannot hold a tag of any fence: what looks like one is spelled differently. So
a fence ends where it was meant to end, whatever stands in it. Control and invisible characters, and the `<|...|>` marks by
which chat templates tell speakers apart, do not get through.
"""

from __future__ import annotations

import re
import unicodedata

from autoqec.io.hashing import sha256_bytes

CHARACTERS_PER_TOKEN = 4
"""The rule by which every budget here counts tokens: characters over four, rounded up."""

_TAG = re.compile(r"<(\s*/?\s*)(data-)", re.IGNORECASE)
_TEMPLATE = re.compile(r"<\||\|>")
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn"}


def tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def clean(text: str) -> str:
    """The text without control and invisible characters and without anything that reads as a fence or a speaker."""
    text = _LINE_ENDS.sub("\n", text)
    text = "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _INVISIBLE)
    return _TAG.sub("‹\\1\\2", _TEMPLATE.sub("¦", text))


def clip(text: str, limit: int) -> str:
    """At most `limit` characters: the beginning and the end, and how much is missing between them."""
    if len(text) <= limit:
        return text
    note = f" [... {len(text)} characters in all ...] "
    room = limit - len(note)
    if room < 2:
        return text[:limit]
    return f"{text[: room - room // 3]}{note}{text[len(text) - room // 3 :]}"


def one_line(text: str, limit: int) -> str:
    """For a place inside a fence where a line break would begin something new."""
    return clip(" ".join(clean(text).split()), limit)


def fence(of: str, text: str, *, limit: int) -> str:
    """The text as data. of: what it is, in this program's words. limit: in characters."""
    body = clip(clean(text), limit).strip("\n")
    mark = f"data-{sha256_bytes(body.encode())[:16]}"
    return f'<{mark} of="{of}">\n{body}\n</{mark}>'
