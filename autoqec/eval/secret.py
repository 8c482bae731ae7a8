"""The verifier's secret, the sampler seeds that follow from it, and the marks by which it knows its own files.

Labels are public and so is how train and val seeds follow from them. A holdout seed is a keyed hash, so that nobody without
the key can sample the shots that a model will be judged on.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from autoqec.errors import InputError

_DOMAIN = "autoqec/holdout/v1"
_MARKS = "autoqec/mark/v1"
_BYTES = 32


@dataclass(frozen=True)
class Secret:
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, path: Path) -> Secret:
        """The secret in `path`, made on first use and readable by its owner only."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            # Written under another name first: whoever sees the file sees all of it.
            draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, secrets.token_bytes(_BYTES))
                os.fsync(handle)
                os.link(draft, path)
            finally:
                os.close(handle)
                draft.unlink()
        facts = path.lstat()
        key = path.read_bytes() if not path.is_symlink() else b""
        if len(key) != _BYTES or facts.st_mode & 0o077:
            raise InputError(
                "is not a secret of 32 bytes that only its owner can read",
                where=str(path),
                hint="chmod 600 it, or move it away: a new one is made, and archived bundles stay valid",
            )
        return cls(key)

    def seed(self, purpose: str, bundle: str, stream: str, label: int) -> int:
        """64-bit sampler seed of one label of one bundle; `stream` is the hash of what is sampled."""
        message = "\x1f".join((_DOMAIN, purpose, bundle, stream, str(label)))
        return int.from_bytes(hmac.new(self.key, message.encode(), hashlib.sha256).digest()[:8], "little")

    def mark(self, purpose: str, content: str) -> str:
        """What only this verifier can write below a text of its own."""
        message = "\x1f".join((_MARKS, purpose, content))
        return hmac.new(self.key, message.encode(), hashlib.sha256).hexdigest()

    def wrote(self, purpose: str, content: str, mark: object) -> bool:
        return isinstance(mark, str) and hmac.compare_digest(
            self.mark(purpose, content).encode(), mark.encode()
        )
