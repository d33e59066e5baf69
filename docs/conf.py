"""The documentation site: ``make docs`` builds it into build/site, and writes the API reference on the way
(reference.py). With HYBRID_NOTEBOOKS=1 the tutorials are executed, and an error in one ends the build."""
from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("HYBRID_COMPILE", "now")           # what tutorials show is compiled

import hybrid                                            # noqa: E402

project = "hybrid"
author = "the hybrid contributors"
project_copyright = "2026, the hybrid contributors (Apache-2.0)"
release = version = hybrid.__version__

extensions = ["myst_nb", "reference"]
exclude_patterns = ["images"]
html_theme = "furo"
html_title = f"hybrid {release}"
html_static_path = ["images"]
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7ab7ff", "color-brand-content": "#7ab7ff"},
}
html_css_files = ["site.css"]
# a page's headings are targets of links: file.md#heading
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "colon_fence"]
highlight_language = "none"                              # blocks that name no language: commands, errors
pygments_style, pygments_dark_style = "friendly", "monokai"
add_module_names = False
smartquotes_action = "D"                                 # dashes alone: quotes are code's
maximum_signature_line_length = 400
toc_object_entries = False

nb_execution_mode = "force" if os.environ.get("HYBRID_NOTEBOOKS") == "1" else "off"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
