"""The speculation bench: SpecTools' Algorithm 2 against its model and against peers."""
