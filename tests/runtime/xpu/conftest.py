from tests.runtime.tiny import tiny_folder

__all__ = ["tiny_folder"]
