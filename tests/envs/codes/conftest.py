from __future__ import annotations

from hypothesis import settings

# Examples share the machine with other tests: how long one takes says nothing.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
