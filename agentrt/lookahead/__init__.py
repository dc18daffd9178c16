"""Turn-ahead: the main model's next request, sent before the current one is answered."""
