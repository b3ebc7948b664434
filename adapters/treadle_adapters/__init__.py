"""What connects treadle to the world: models, stores, tool sources, hosts and the command."""
