"""Background jobs: requests whose answers nobody waits for, kept until they are computed."""
