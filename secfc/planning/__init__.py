"""What a run will cost and show, before it is agreed on.

    import secfc
    print(secfc.plan(secfc.SecFC(k=4, threshold=2), n=10, m=10_000, d=20))

Nothing is a formula of its own: the plan is the algorithm's, sentences are the policies', and messages are
those that this very code sends when it rehearses the run on a few made-up rows (`secfc.planning.dry_run`).
"""
