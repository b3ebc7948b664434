"""What connects treadle to the world: models over HTTP, and stores."""
