"""Events of speculation, the report on them, traces, and recordings of runs."""
