"""Native code for the CPU: products with weights in the precision of a GGUF file."""
