"""The bench of benches that other people wrote: recorded agents (agentperf-local) and tool calls (BFCL)."""
