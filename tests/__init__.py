"""What stands here runs before NumPy is loaded, in every process of a suite; what these start inherits it."""

import os

# Threads of a BLAS wait for one another in loops: on two cores, small matrices took ten times the processor
# time.  By night it has as many threads as it has for users.
if os.environ.get("HYPOTHESIS_PROFILE") != "nightly":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
