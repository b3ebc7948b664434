"""Tools: definition, registry, pipeline."""
