"""LangChain tools that can be run speculatively."""
