"""Attention by language for code-switching speech (P1: Zhang et al. 2022), all of it.

====================================  ==================================================
``language_attention.py``             self-attention by language: W of eq. 1 and 2, the
                                      shared and separate streams of Fig. 1b and c
``language_transformer.py``           ``decoder: language_transformer``, ESPnet's
                                      transformer decoder with that attention
``mixed_units.py``                    Han characters and English word pieces (4.2)
``token_languages.py``                the language of each token
``encodings.py``                      outputs of one trained encoder, kept for all data
``stored_encodings.py``               ``encoder: stored_encodings``, which reads them
====================================  ==================================================

The recipe is ``egs/asru2019_cs``.
"""
