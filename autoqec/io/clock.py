"""Times as files hold them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp() -> str:
    """Now, UTC, ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
