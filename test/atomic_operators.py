"""Operators of ATen whose kernels for CUDA add in the order in which threads come: their results
differ in bits from call to call.

From the list of `torch.use_deterministic_algorithms`, in the names of the dispatcher without
overloads, with what is made of them (gradients, forms that write to an operand). Operators of
that list which are the same in every call as programs call them: `nll_loss` of one label for a
row (that of images is not), `bmm` of dense matrices, and `cumsum` of integers. The list there
lacks the gradient of an embedding, which sorts more than 3072 indices, and adds what pieces of
them give to one row by atomic instructions. `_index_put_impl_` is none of them where it adds,
which is all that it is called for: it sorts, and one warp adds up a row.
"""

ATOMIC = {
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward",
    "_ctc_loss_backward",
    "_embedding_bag_dense_backward",
    "adaptive_max_pool2d_backward",
    "avg_pool3d_backward",
    "bincount",
    "cumsum",
    "embedding_dense_backward",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward",
    "gather_backward",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "histc",
    "index_add",
    "index_copy",
    "index_put",  # of the last of several values for a place
    "index_reduce",
    "index_select_backward",
    "max_pool3d_with_indices_backward",
    "max_unpool2d",
    "max_unpool3d",
    "nll_loss2d_forward",
    "put",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "repeat_interleave",
    "replication_pad1d_backward",
    "replication_pad2d_backward",
    "replication_pad3d_backward",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "upsample_bicubic2d_backward",
    "upsample_bilinear2d_backward",
    "upsample_linear1d_backward",
    "upsample_trilinear3d_backward",
}


def atomic(names):
    """Those of the names, `aten::name.overload`, that are such operators."""
    bare = {name: name.removeprefix("aten::").split(".")[0].rstrip("_") for name in names}
    return sorted(name for name in names if bare[name] in ATOMIC)
