from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # documented_commands
sys.path.append(str(Path(__file__).parents[2] / "tools"))  # docs_reference
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))  # browser
