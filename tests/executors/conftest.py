"""The workers of these tests are imported by processes that get this one's path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
