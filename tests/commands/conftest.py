from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the modules of the fuzz
sys.path.insert(0, str(Path(__file__).parents[1] / "runs"))  # tiny_runs and offline_world
