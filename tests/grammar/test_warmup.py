"""After the warm-up nobody waits for a kernel to be compiled."""

from __future__ import annotations

import grammar
from grammar import kernels


def test_the_warm_up_runs_every_kernel_of_the_mask_engine():
    grammar.warmup()
    compiled = {
        name: kernel.signatures
        for name, kernel in vars(kernels).items()
        if hasattr(kernel, "signatures") and name not in ("pack", "collect")
    }
    if compiled:  # none with the JIT off
        idle = sorted(name for name, signatures in compiled.items() if not signatures)
        assert idle == []
