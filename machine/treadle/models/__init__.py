"""Messages, streams, adapters and routes."""
