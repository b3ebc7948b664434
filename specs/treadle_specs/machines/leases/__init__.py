"""Two writers of one session, one of which is stopped at any line while the other does its work (P2)."""
