"""Makes ssim.json: structural similarity by scikit-image (0.26.0), in the form of Wang et al.

python ssim.py > ssim.json. Pictures are made by rule, so that the test makes them itself.
"""
import json
import numpy as np
from skimage.metrics import structural_similarity

def picture(w, h, a, b, c):
    y, x, k = np.meshgrid(np.arange(h), np.arange(w), np.arange(3), indexing="ij")
    return ((x * x * a + y * b + k * c + x * y) % 256).astype(np.uint8)

cases = []
for w, h, first, second in [(24, 17, (3, 7, 50), (3, 7, 50)), (24, 17, (3, 7, 50), (5, 7, 50)), (40, 31, (1, 2, 3), (1, 9, 80)), (11, 11, (2, 3, 90), (0, 0, 0))]:
    x, y = picture(w, h, *first), picture(w, h, *second)
    mean, full = structural_similarity(x, y, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255, channel_axis=2, full=True)
    m = full.mean(axis=2)
    cases.append({"width": w, "height": h, "first": first, "second": second, "mean": float(mean),
                  "at": [[int(i), int(j), float(m[j, i])] for i, j in [(0, 0), (w - 1, 2), (w // 2, h // 2), (3, h - 1)]]})
print(json.dumps(cases, indent=1))
