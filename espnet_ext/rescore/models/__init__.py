"""Score hypotheses by language models.

By likelihoods (P3, eq. 2), pseudo-likelihoods (eq. 3), or pooled states (eq. 10, 11).
"""
