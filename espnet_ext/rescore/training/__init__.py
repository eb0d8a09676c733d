"""Training of language models for a second pass: on text, and for the fewest expected word errors of N-best lists."""
