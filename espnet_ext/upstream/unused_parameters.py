"""Training by several processes while some layers have no gradients."""

import torch
from torch.nn.parallel import DistributedDataParallel


def expect_all_gradients(model: torch.nn.Module) -> None:
    """Stop the search, in each update, for parameters without gradients.

    The search walks through the whole graph before each backward pass. PyTorch decides
    on it when it wraps a model for several processes, and ESPnet wraps it once; so the
    part that searches is made anew, as when PyTorch reads a wrapped model from a file.
    All processes must do this before the same update. Other models stay as they are.
    """
    if not isinstance(model, DistributedDataParallel):
        return
    if not model.find_unused_parameters:
        return
    model.find_unused_parameters = False
    parameters, sparse = model._build_params_for_reducer()
    names = model._build_debug_param_to_name_mapping(parameters)
    model._ddp_init_helper(parameters, sparse, names, model.static_graph)
