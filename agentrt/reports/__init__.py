"""What speculation did: events, the report they add up to, traces and recordings."""
