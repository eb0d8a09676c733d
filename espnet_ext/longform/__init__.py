"""Train acoustic models on contexts from seconds to an hour (P5: Flynn and Ragni 2024).

Everything that P5 needs is here.

====================================  ==================================================
``long_fastconformer.py``             ``encoder: long_fastconformer`` (sections 2, 3.2)
``conformer.py``                      its layer (2.1)
``conv_subsampling.py``               its 8-fold subsampling (2.1)
``positions.py``                      rotary and sinusoidal encodings (2.4)
``batch_renorm.py``                   batch renormalisation (Ioffe 2017)
``ctc_per_second.py``                 ``model: ctc_per_second``: the loss of a second
``warmup_cosine.py``                  ``scheduler: warmup_cosine`` (3.3)
``chunking.py``, ``training.py``      sequences that double in length (2.3, 3.3)
``recording_features.py``             features normalised by recording (3.1)
``noise.py``                          music and other noise behind a recording (Fig. 2)
``decoding``                          overlapping windows, whose posteriors are averaged
                                      (2.2)
``alignment``                         times of words, by a model with CTC
====================================  ==================================================

The recipe is ``egs/spotify_longctx``.
"""
