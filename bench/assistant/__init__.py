"""What the personal assistant does with requests of a person that it was not built on."""
