"""Lloyd's heuristic with missing features, one point and one coordinate at a time, in fractions."""

from fractions import Fraction


def masked_lloyd(parts, observed, starts, k, max_iter, present=None):
    """Labels of every client before the first step and after each, and the cost before each of them.

    parts: integer points of each client.  observed: of each the features that its columns are.  starts:
    labels of each in [-1, k).  present: (step, client) -> whether the client is counted in that step.
    """
    present = present or (lambda step, client: True)
    clients = range(len(parts))
    labels = [[int(label) for label in own] for own in starts]
    history, costs, centers = [labels], [], [{} for _ in range(k)]
    for step in range(max_iter + 1):
        sums = [{} for _ in range(k)]
        for i in clients:
            for row, h in zip(parts[i], labels[i], strict=True):
                for f, x in zip(observed[i], row, strict=True):
                    if h >= 0 and present(step, i):
                        total, count = sums[h].get(f, (0, 0))
                        sums[h][f] = (total + int(x), count + 1)
        for h in range(k):
            for f, (total, count) in sums[h].items():
                centers[h][f] = Fraction(total, count)
        if all(present(step, i) for i in clients):
            costs.append(cost(parts, observed, labels, centers))
        new = []
        for i in clients:
            own = []
            offered = [h for h in range(k) if sums[h] and all(f in centers[h] for f in observed[i])]
            for row in parts[i]:
                near = [(distance(row, observed[i], centers[h]), h) for h in offered]
                own.append(min(near)[1] if near else -1)
            new.append(own)
        if step == max_iter or new == labels:
            if step < max_iter:
                history.append(new)
            break
        labels = new
        history.append(labels)
    return history, costs, centers


def distance(row, features, center):
    return sum((int(x) - center[f]) ** 2 for f, x in zip(features, row, strict=True))


def cost(parts, observed, labels, centers):
    return sum(
        distance(row, features, centers[h])
        for part, features, own in zip(parts, observed, labels, strict=True)
        for row, h in zip(part, own, strict=True)
        if h >= 0
    )
