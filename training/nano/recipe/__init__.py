"""The recipe that trains and exports the nano models.

It needs the ``train`` extra; nothing at run time imports it.
"""
