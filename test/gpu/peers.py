"""What `gpu_bench.py` compares attentions with: PyTorch's own, and formulas written out."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# Encodings that add to a score what a function of its head and two places gives.
BIASES = ("alibi", "t5_bias", "kerple_log", "dape")
# Those that FlexAttention is compared with.
FLEXIBLE = ("alibi", "t5_bias", "kerple_log", "fire")
# Distances whose bucket of T5 is known.
DISTANCES = 1 << 16


def bias_of(name, params):
    """(head, query, key) -> what is added to a score, in plain PyTorch; None for none.
    Places are tensors of any shapes that broadcast, or numbers of one score."""
    if name not in BIASES:
        return None
    if name == "alibi":
        slopes = params["alibi.slopes"]
        return lambda head, i, j: -slopes[head] * (i - j).abs()
    if name == "t5_bias":
        table, thresholds = params["t5_bias.table"], params["t5_bias.thresholds"]
        exact = table.shape[0] - len(thresholds)
        distance = torch.arange(DISTANCES, device=table.device)
        far = torch.bucketize(distance.float(), thresholds, right=True)
        # FlexAttention has no searches: the bucket is looked up.
        bucket = torch.where(distance < exact, distance, exact - 1 + far)
        return lambda head, i, j: table[bucket[(i - j).clamp(min=0)], head]
    prefix = {"kerple_log": "kerple_log.", "dape": "dape.kerple_log."}[name]
    r1, r2 = params[prefix + "r1"], params[prefix + "r2"]
    return lambda head, i, j: -r1[head] * torch.log1p(r2[head] * (i - j).clamp(min=0))


def fire_of_pairs(params, length, threshold=512.0):
    """FIRE (Li et al. 2024, section 3) of all pairs of places, [heads, length, length]: a
    network of the distance over the query's place, or over a trained threshold."""
    c, mult, w1, b1, w2, b2 = (params["fire." + n] for n in ("c", "mult", "w1", "b1", "w2", "b2"))

    def psi(u):
        return torch.log1p(c.abs() * u)

    index = torch.arange(length, device=w1.device)
    far = torch.maximum(index.float(), (mult * threshold).abs())
    x = psi((index[:, None] - index).abs().float()) / (psi(far)[:, None] + 1e-6)
    hidden = torch.relu(x[..., None] * w1 + b1)
    return (hidden @ w2.T + b2).permute(2, 0, 1)


def bias_of_pairs(name, params, heads, length):
    """What is added to all scores, [heads, length, length]; None for none."""
    if name == "fire":
        return fire_of_pairs(params, length)
    bias = bias_of(name, params)
    if not bias:
        return None
    device = next(iter(params.values())).device
    index = torch.arange(length, device=device)
    return bias(torch.arange(heads, device=device)[:, None, None], index[:, None], index)


def adapted(params, scores, bias):
    """DAPE (Zheng et al. 2024, equation 3, with the score and the bias concatenated):
    a network of two layers over all heads of each pair of positions."""
    both = torch.cat([scores, bias.expand_as(scores)], 1)
    hidden = torch.einsum("oh,bhij->boij", params["dape.w1"], both)
    hidden = F.leaky_relu(hidden + params["dape.b1"][:, None, None], 0.01)
    mixed = torch.einsum("ho,boij->bhij", params["dape.w2"], hidden)
    return scores + bias + mixed + params["dape.b2"][:, None, None]


def turned(rows):
    """RoPE (Su et al. 2021), where a lane's partner is half a row away."""
    length, dim = rows.shape[2:]
    lane = torch.arange(dim // 2, dtype=torch.float64, device=rows.device)
    place = torch.arange(length, dtype=torch.float64, device=rows.device)
    angle = place[:, None] * 10000.0 ** (-2 * lane / dim)
    cosine, sine = angle.cos().float(), angle.sin().float()
    x, y = rows.float().chunk(2, -1)
    return torch.cat([x * cosine - y * sine, x * sine + y * cosine], -1).to(rows.dtype)


def eager(name, params, q, k, v):
    """Attention written out: scores of all pairs stand in memory."""
    length = q.shape[2]
    if name == "rope":
        q, k = turned(q), turned(k)
    index = torch.arange(length, device=q.device)
    scores = (q @ k.transpose(2, 3)).float() / q.shape[3] ** 0.5
    added = bias_of_pairs(name, params, q.shape[1], length)
    if added is not None:
        scores = adapted(params, scores, added[None]) if name == "dape" else scores + added
    if not name.startswith("plain"):
        scores = scores.masked_fill(index > index[:, None], float("-inf"))
    return scores.softmax(-1).to(v.dtype) @ v


def flex(name, params, length, device, compiles=True):
    """FlexAttention with the bias as a score modification, of which FIRE's reads what a
    network gives for all pairs: it multiplies no matrices there, and its gradients of a
    parameter are of one read."""
    bias = bias_of(name, params)
    # What a score reads takes shared memory, which three stages have not.
    options = {"num_stages": 2} if name in ("t5_bias", "fire") else {}
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=device)

    def attention(q, k, v):
        added = None if bias else bias_of_pairs(name, params, q.shape[1], length)

        def modify(score, b, head, i, j):
            return score + (bias(head, i, j) if bias else added[head, i, j])

        return flex_attention(
            q, k, v, score_mod=modify, block_mask=mask, kernel_options=options
        )

    return torch.compile(attention) if compiles else attention


# Backends of `scaled_dot_product_attention` that are asked for by name.
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}


def missing(peer, device):
    """Why this PyTorch does not have a peer on a device; empty if it does."""
    if peer != "cudnn":
        return ""
    if device == "cpu":
        return "cuDNN's attention runs on GPUs alone"
    if not hasattr(SDPBackend, BACKENDS[peer]):
        return f"PyTorch {torch.__version__} does not know cuDNN's attention"
    if not torch.backends.cudnn.is_available():
        return f"PyTorch {torch.__version__} has no cuDNN"
    return ""


def sdpa(name, peer="sdpa"):
    """PyTorch's own attention, on the backend that a peer names and on no other, or on
    whichever it takes."""

    def attention(q, k, v):
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=name.startswith("causal"), enable_gqa=grouped
        )

    def on_backend(q, k, v):
        with sdpa_kernel([getattr(SDPBackend, BACKENDS[peer])]):
            return attention(q, k, v)

    return on_backend if peer in BACKENDS else attention
