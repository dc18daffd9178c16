"""Turn-ahead: the main model's next request, sent before it is due."""
