"""What a request returns: the generation, its events, and the stream of them."""
