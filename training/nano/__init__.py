"""The recipe that trains the nano model: dialogues, vocabulary, tokenizer, training, evaluation."""
