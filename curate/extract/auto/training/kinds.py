"""The linear model of a page's kind: multinomial logistic regression over hashed words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from curate.extract.auto.page import KINDS, NUM_KIND_BUCKETS, KindModel

INVERSE_PENALTY = 8.0  # of the squared weights
MOST_STEPS = 300


def fit_kinds(bags: Sequence[npt.NDArray[np.int64]], kinds: Sequence[str], weights: Sequence[float]) -> KindModel:
    """Return the model that gives the kinds of pages the highest likelihood, with a squared penalty on its weights.

    Args:
        bags: Buckets of each page (`curate.extract.auto.page.kind_bag`).
        kinds: Of each page, one of KINDS.
        weights: Of each page.
    """
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix

    starts = np.cumsum([0, *map(len, bags)])
    values = np.concatenate([np.full(len(bag), 1 / np.sqrt(max(len(bag), 1))) for bag in bags])
    rows = csr_matrix((values, np.concatenate(bags), starts), (len(bags), NUM_KIND_BUCKETS))
    target = np.zeros((len(bags), len(KINDS)))
    target[np.arange(len(bags)), [KINDS.index(kind) for kind in kinds]] = 1
    scale = np.asarray(weights)[:, None] * INVERSE_PENALTY
    size = NUM_KIND_BUCKETS * len(KINDS)

    def loss(flat: npt.NDArray[np.float64]) -> tuple[float, Any]:
        parameters = flat[:size].reshape(NUM_KIND_BUCKETS, len(KINDS))
        scores = rows @ parameters + flat[size:]
        scores -= scores.max(1, keepdims=True)
        log_sum = np.log(np.exp(scores).sum(1, keepdims=True))
        nats = -(scale * target * (scores - log_sum)).sum() + 0.5 * (parameters**2).sum()
        slope = scale * (np.exp(scores - log_sum) - target)
        return float(nats), np.concatenate([(rows.T @ slope + parameters).ravel(), slope.sum(0)])

    start = np.zeros(size + len(KINDS))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    fitted: npt.NDArray[np.float32] = found.x.astype(np.float32)
    return KindModel(fitted[:size].reshape(NUM_KIND_BUCKETS, len(KINDS)), fitted[size:])
