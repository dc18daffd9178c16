"""Embeddings of texts by a model of its own, through OpenVINO GenAI's text embedding pipeline."""
