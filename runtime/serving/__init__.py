"""The runtime over HTTP: the listener, the server, the gateway and the live page."""
