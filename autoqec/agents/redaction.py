"""Secrets of this process's environment do not get into what a run writes down, wherever they turn up."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH(?!OR)|COOKIE|PROXY", re.IGNORECASE
)
REDACTED = "[redacted]"


class Redactor:
    """Replaces the values of variables whose names say that they are secret.

    A value that could be an ordinary word stays: below 8 characters, or below 20 without a digit.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        values = {value.strip() for name, value in environ.items() if _SECRET_NAME.search(name)}
        # the longest first: one secret may be the beginning of another
        kept = sorted(filter(_is_secret, values), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, kept))) if kept else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(REDACTED, text) if self._pattern is not None else text


def _is_secret(value: str) -> bool:
    return len(value) >= 20 or (len(value) >= 8 and any(char.isdigit() for char in value))
