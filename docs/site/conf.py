"""How the site is made of the pages: read by Sphinx, which `python docs/build.py` calls."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import treadle  # noqa: E402  # Sphinx reads this file by itself, outside of any package
import treadle.tools.definition  # noqa: E402

treadle.tools.definition.Agent = treadle.Agent  # type: ignore[attr-defined]  # imported there for types only; signatures name it

project = "treadle"
author = "treadle contributors"
project_copyright = "treadle contributors, under the MIT licence"
version = release = treadle.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docs.site.links",
    "docs.site.names",
    "docs.site.made",
]
root_doc = "index"
exclude_patterns = ["site/**", "pictures/**"]
suppress_warnings = [
    "misc.highlighting_failure",  # `…` stands in JSON and TOML for what is left out
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_default_options = {"members": True}
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
add_module_names = False
nitpicky = False  # names of other libraries are not linked; those of ours are, by `docs.site.names`

html_theme = "furo"
html_title = f"treadle {release}"
html_static_path = ["static"]
html_css_files = ["treadle.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "default"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
