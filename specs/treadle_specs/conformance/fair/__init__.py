"""The fair profile: drivers without an event log, judged by model requests, tool starts and status alone (§7)."""
