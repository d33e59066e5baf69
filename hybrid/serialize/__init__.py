"""Model files: MXNet's ``.params`` and ``-symbol.json``, and files that appear whole or not at all."""
