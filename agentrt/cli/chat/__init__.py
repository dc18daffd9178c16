"""``agentrt chat``: one question, or a conversation on the terminal."""
