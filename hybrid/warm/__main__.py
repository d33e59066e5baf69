"""``python -m hybrid.warm``."""
from __future__ import annotations

import sys

from . import main

sys.exit(main(sys.argv[1:]))
