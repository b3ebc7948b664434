"""Other drivers of agents do the same work in the same run: scripts ``on_NAME``, each in an environment of its own."""
