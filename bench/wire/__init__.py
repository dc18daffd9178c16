"""`agentrt bench wire`: background responses beside a user, over kills, and a harness's second turn."""
