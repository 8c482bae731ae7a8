"""Failure bits on disk, per decoder and stream of shots: runs resume, and later decoders join earlier shots."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import stim

from autoqec import layout
from autoqec.envs.problem import U8
from autoqec.io import atomic
from autoqec.io.hashing import sha256_json

_DIGEST = hashlib.sha256().digest_size


@dataclass
class Record:
    """The first `shots` failure bits of a decoder on a stream, packed, and the CPU seconds they took."""

    shots: int
    seconds: float
    bits: U8

    @classmethod
    def empty(cls) -> Record:
        return cls(0, 0.0, np.zeros(0, dtype=np.uint8))

    def first(self, shots: int) -> Record:
        """The record cut to its first `shots`, time in proportion."""
        if shots >= self.shots:
            return self
        bits = self.bits[: (shots + 7) // 8].copy()
        if shots % 8:
            bits[-1] &= (1 << shots % 8) - 1
        return Record(shots, self.seconds * shots / self.shots, bits)


class FailureStore:
    """Records of one stream. Shots are a function of the stream, the chunk size, Stim's version and the machine type."""

    def __init__(self, stream: str, purpose: str, chunk: int) -> None:
        self._folder = sha256_json([stream, purpose, chunk, stim.__version__, platform.machine()])[:32]

    def path(self, identity: str) -> Path:
        return layout.failure_cache(self._folder, _key(identity))

    def load(self, identity: str) -> Record:
        """What is stored; an unreadable or damaged record counts as empty."""
        try:
            data = self.path(identity).read_bytes()
            payload = data[_DIGEST:]
            if hashlib.sha256(payload).digest() != data[:_DIGEST]:
                return Record.empty()
            head, _, bits = payload.partition(b"\n")
            meta = json.loads(head)
            return Record(meta["shots"], meta["seconds"], np.frombuffer(bits, dtype=np.uint8).copy())
        except (OSError, ValueError, KeyError):
            return Record.empty()

    def save(self, identity: str, record: Record) -> None:
        """Replaces the stored record; a folder that cannot be written only costs the reuse. A record of no shots (a later chunk was done
        before the first one) is not one."""
        if not record.shots:
            return
        head = json.dumps({"identity": identity, "shots": record.shots, "seconds": record.seconds})
        payload = head.encode() + b"\n" + record.bits.tobytes()
        with contextlib.suppress(OSError):
            atomic.write_bytes(self.path(identity), hashlib.sha256(payload).digest() + payload)


def _key(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:32]
