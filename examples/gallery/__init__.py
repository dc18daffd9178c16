"""What the short example scripts share: the option ``--model``, models and servers."""
