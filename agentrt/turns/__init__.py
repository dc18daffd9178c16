"""One model request with its speculations, and the session of requests around it."""
