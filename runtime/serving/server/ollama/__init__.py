"""Chat, completions and models in the form of Ollama, for programs that speak no other."""
