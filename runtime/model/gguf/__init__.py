"""GGUF files, as llama.cpp uses them: reads them and converts them to OpenVINO model directories."""
