"""The machinery of the site: how links, names and generated parts of the pages become one. Sphinx alone imports it."""
