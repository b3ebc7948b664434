"""The pages that are generated: rules and their tests, hook points, the log's format, the verification report.

Each module is a command, ``python -m treadle_specs.reports.rule_table --write``. The room may import every other one.
"""
