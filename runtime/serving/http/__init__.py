"""What the server and the gateway share: listening, connections, identity, limits and errors."""
