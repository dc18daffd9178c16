"""OpenAI's responses: requests, items, events and bodies."""
