"""What treadle costs, measured against floors in the same process: ``python -m benchmarks``."""
