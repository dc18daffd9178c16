"""``agentrt top``: what a server does, in the terminal."""
