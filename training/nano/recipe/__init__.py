"""The recipe that trains the nano models. It needs the ``train`` extra; nothing at run time imports it."""
