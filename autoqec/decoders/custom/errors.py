"""The one error of a custom function that cannot be used."""

from __future__ import annotations

from autoqec.errors import InputError


class CustomCodeError(InputError):
    """rule: the short name of the rule that failed; field: the path of the function in the config; line: in its source,
    from 1, or None."""

    def __init__(self, rule: str, what: str, *, where: str, hint: str, line: int | None = None) -> None:
        self.rule = rule
        self.field = where
        self.line = line
        place = where if line is None else f"{where}, line {line}"
        super().__init__(f"{rule}: {what}", where=place, hint=hint)
