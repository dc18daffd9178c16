"""What the server and the gateway share: listening, identity, limits, errors and the tool cache's route."""
