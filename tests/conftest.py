"""Every test run has a compile cache of its own and checks graphs between passes."""
from __future__ import annotations

import os
import tempfile

_cache = tempfile.TemporaryDirectory(prefix="hybrid-tests-")
os.environ["HYBRID_CACHE"] = _cache.name
os.environ.setdefault("HYBRID_VERIFY", "1")
