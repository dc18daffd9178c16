"""The pattern speculator: predicts calls from those made before, by online logistic regression."""
