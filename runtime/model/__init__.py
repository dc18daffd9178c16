"""Models: directories and GGUF files on disk, graphs with paged attention, tokenizers, detokenizers."""
