"""What connects treadle to the world: models, stores, tool sources and hosts."""
