"""The effects that attention puts around softmax, in one call: scale, a causal mask, lengths and a sink."""

import numpy as np
import sluice

rng = np.random.default_rng(0)
batch, heads, queries, keys = 2, 4, 5, 8
scores = rng.standard_normal((batch, heads, queries, keys), dtype=np.float32)
lengths = np.array([[[8]], [[5]]])  # [batch, 1, 1]: the second sequence has 5 keys, the rest is padding
sink = np.zeros((heads, 1), np.float32)  # [heads, 1]: a logit that takes weight and gives nothing

p = sluice.softmax(scores, scale=64**-0.5, causal=True, diagonal="bottom_right", lengths=lengths, sink=sink)

print("weights of the first query of the second sequence, first head:")
print(p[1, 0, 0].round(3))
print(f"they sum to {p[1, 0, 0].sum():.3f}; the sink took the rest")

# Any axis, any strides, and results into memory of your own: nothing is copied.
image = rng.standard_normal((3, 4, 5), dtype=np.float32)
out = np.empty_like(image)
sluice.softmax(image, axis=0, out=out)
print(f"over axis 0 every sum is 1: {np.allclose(out.sum(0), 1)}")

# What a call refuses, it refuses with one line that names the argument.
try:
    sluice.softmax(image, out=out[:2])
except ValueError as refused:
    print(f"refused as expected: {refused}")
