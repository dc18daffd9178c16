"""What the server and the gateway share: identity, limits, errors, the tool cache's route."""
