"""Models from the Hugging Face hub and from https addresses: names, downloads, and where they lie."""
