"""Small Energy Masking (P2: Kim et al. 2020), all of it.

====================================  ==================================================
``power_mel.py``                      ``frontend: power_mel``, eq. 1 and the power 1/15
``energy_mask.py``                    peak, threshold, mask and scale: eq. 2, 6 to 8, 10
``sem_global_mvn.py``                 ``normalize: sem_global_mvn``: eq. 9 to 12, Fig. 2
``dropout_global_mvn.py``             ``normalize: dropout_global_mvn``, what SEM is
                                      compared with (section 1, Table 4)
``blstm_maxpool.py``, ``blstm.py``    ``encoder: blstm_maxpool`` (section 4)
``weight_feedback_rnn.py``            ``decoder: weight_feedback_rnn``, of P2's [17]
``newbob_multi_epoch.py``             ``scheduler: newbob_multi_epoch``, of the same
``pretraining.py``, ``training.py``   layer-wise pre-training: the network grows (4)
``curriculum.py``                     which utterances an epoch sees, of the same
``energy_statistics.py``              where the energy is: eq. 1 to 3, Fig. 1 and 3
``layer_stats.py``                    ``model: espnet_layer_stats``: masked shares in
                                      the training log
====================================  ==================================================

The recipe is ``egs/librispeech_sem``; the prior of Table 5 is ``upstream/prior.py``.
"""
