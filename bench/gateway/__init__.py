"""The gateway bench: replicas behind a balancer, one of which is killed, before an engine that fails."""
