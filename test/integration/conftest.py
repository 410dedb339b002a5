"""What the tests of whole models share."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Models of these sizes gain nothing from threads, and lose much on a busy
    machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
