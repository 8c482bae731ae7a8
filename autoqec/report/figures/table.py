"""What a figure shows, as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = str | int | float | bool | None
Row = Mapping[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t")


@dataclass(frozen=True)
class FigureTable:
    """kind: which figure. title: with environment and p. about: what is shown, in a sentence. columns: key -> heading, in order."""

    kind: str
    title: str
    about: str
    columns: Mapping[str, str]
    rows: Sequence[Row]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: rows are lists, in the order of the columns."""
        return {
            "kind": self.kind,
            "title": self.title,
            "about": self.about,
            "columns": [{"key": key, "heading": heading} for key, heading in self.columns.items()],
            "rows": [[row.get(key) for key in self.columns] for row in self.rows],
        }

    def to_csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.writer(buffer)
        writer.writerow(self.columns.values())
        writer.writerows([_cell(row.get(key)) for key in self.columns] for row in self.rows)
        return buffer.getvalue()


def _cell(value: Value) -> Value:
    """A spreadsheet takes text that begins like a formula for one."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def joined(headings: Iterable[str]) -> str:
    """One heading for several runs; the same one once."""
    return "; ".join(dict.fromkeys(headings))
