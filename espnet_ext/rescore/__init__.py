"""Second-pass rescoring of N-best lists with language models (P3: Shivakumar et al. 2023)."""

SCORERS = ("causal", "pll", "pooled")
POOLINGS = ("last", "cls", "attention")
