"""Where the tests' files are."""
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent                     # of the repository
DATA = TESTS / "data"
