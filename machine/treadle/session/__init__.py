"""The session log."""
