"""The assistant in conversations: what `agentrt chat` and its bench talk to."""
