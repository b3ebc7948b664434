"""What every adapter that speaks HTTP shares: the endpoint, credentials, events, the watchdog, and failures."""
