"""What stands between a call and its tool in the running graph."""
