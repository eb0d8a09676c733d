"""Second-pass rescoring of N-best lists with language models: P3."""
