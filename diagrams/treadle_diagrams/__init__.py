"""Draws the lifecycle and recorded sessions."""
