"""Files of models, caches and the user: locks, digests, and opening what may not be a file."""
