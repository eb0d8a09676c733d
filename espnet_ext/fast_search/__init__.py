"""Beam search for ESPnet's models, several times as fast; README.md says how."""
