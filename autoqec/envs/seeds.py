"""From seed labels to sampler seeds.

An environment's `seed_policy` names *labels*. The number that a sampler is seeded with is

    first 8 bytes, little endian, of  SHA-256("autoqec/seed/v1" | purpose | stream | label)

with the parts joined by the byte 0x1F. `purpose` is a tag such as "train", "val" or "holdout"; `stream` names
what is sampled (an environment's content hash and p). Equal labels of different purposes, environments or error
rates therefore give unrelated shots.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from autoqec.envs.schema import Purpose, SeedPolicy

_DOMAIN = "autoqec/seed/v1"


def derive_seed(purpose: str, stream: str, label: int) -> int:
    """A 64-bit sampler seed for one label."""
    message = "\x1f".join((_DOMAIN, purpose, stream, str(label)))
    return int.from_bytes(hashlib.sha256(message.encode()).digest()[:8], "little")


def labels(policy: SeedPolicy, purpose: Purpose) -> Iterator[int]:
    """The labels of one purpose, in order."""
    low, high = getattr(policy, purpose)
    return iter(range(low, high + 1))
