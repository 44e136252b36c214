"""The algorithms as scikit-learn has them: `fit`, `predict`, pipelines, searches over grids.

    from secfc.estimators import SecFCKMeans
    model = SecFCKMeans(n_clusters=4).fit([x1, x2, x3])  # one array or data frame a client
    model.labels_

An estimator is a simulation: this process holds the points of all clients and plays all parties, as
`secfc.fit` does, whose labels these are, bit for bit.  What every attribute tells whom where organizations
run the protocol between them is in the docstring of each class: "public" is known to all parties, "owners'"
is known to the client whose rows it is about, "noised" is public and carries the noise of a budget, and
"nobody's": no party has it; the simulation has it because it runs all parties.  A pickled estimator
holds the shares of all clients: it is as secret as the data.

Needs scikit-learn: pip install 'secfc-clustering[estimators]'.  `import secfc` does not load it.
"""

from secfc.errors import install_command

try:
    import sklearn
except ImportError as error:
    raise ImportError(
        f"secfc.estimators needs scikit-learn, which is not installed: {install_command('[estimators]')}, or "
        "use secfc.fit, which does without"
    ) from error

from secfc.estimators.algorithms import DPKMeans, FederatedKMeans, KFedKMeans, SecFCDBSCAN, SecFCKMeans

__all__ = ["DPKMeans", "KFedKMeans", "FederatedKMeans", "SecFCDBSCAN", "SecFCKMeans"]
