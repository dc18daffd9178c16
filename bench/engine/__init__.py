"""The engine bench: kernels against OpenVINO GenAI."""
