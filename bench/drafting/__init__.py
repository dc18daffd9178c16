"""``agentrt bench drafting``: what drafts save while real models generate, against other ways to draft."""
