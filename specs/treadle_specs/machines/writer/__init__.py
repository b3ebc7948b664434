"""The batching writer over a sink that is slow, fails, and answers late, held to a model of what may be lost (P1–P8)."""
