"""The local runtime as a LangChain chat model."""
