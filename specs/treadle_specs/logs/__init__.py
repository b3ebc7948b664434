"""Session logs: a checker for any log, a glossary of their fields, and the damage that the checks are tried against.

The room imports the core; of the other rooms none.
"""
