"""One model call with its speculations, and the session of calls around it."""
