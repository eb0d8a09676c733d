"""Stitch hypotheses of a long meeting's windows, by speaker (P4: Chang et al. 2021).

Everything that P4 needs is here.

``recogniser``: end-to-end speaker-attributed recognition (section 2.1), whose
hypotheses of windows are stitched.

====================================  ==================================================
``sa_asr.py``                         ``model: sa_asr``: eq. 1 and 12
``speaker_attributed_decoder.py``     eq. 2 to 10; ``speaker_inventory.py``: eq. 8 to 10
``d_vectors.py``                      ``encoder: d_vectors``, eq. 6
``task.py``, ``search.py``            training and beam search of such models
``mixture_plan.py``, ``mixtures.py``  mixtures to train on (4.1.1)
``inventories.py``, ``profiles.py``   who may be speaking (4.2)
====================================  ==================================================

``stitcher``: one transcript from those of overlapping windows (sections 2.2 and 3).

====================================  ==================================================
``overlapping.py``                    overlapping inference, eq. 13 to 18
``by_time.py``                        the same with times of words, eq. 18
``pairs.py``                          what a stitcher reads and writes (3.1, 3.2)
``aligned_pairs.py``                  ``encoder: aligned_pairs``, the stitcher by
                                      alignment (3.2)
``stitcher_model.py``                 ``model: stitcher`` (4.1.1)
``inference.py``                      stitching with a trained model
``simulated_errors.py``               windows to train on, with a recogniser's errors
====================================  ==================================================

The recipe is ``egs/libricss_stitch``.
"""
