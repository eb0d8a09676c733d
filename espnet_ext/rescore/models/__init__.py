"""Language models that score hypotheses: likelihoods (P3, eq. 2), pseudo-likelihoods
(eq. 3), pooled (eq. 10, 11).
"""
