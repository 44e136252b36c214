"""Where the modules of version 0.1.0 are now (see `field._moved`)."""

from field._moved import install, rooms

install(
    rooms(
        "secfc",
        {
            "secfc": "aggregate=sums oneshot=kfed",
            "secfc.roles": "exchange agreement description checks toss",
            "secfc.data": "inputs readers parquet serverside resolution",
            "secfc.transport": "link wire handshake journal checkpoint",
            "secfc.lloyd": "starts centers",
            "secfc.feddp": "feddp.server=estimates",
            "secfc.coded": "plan layout membership alignment=union sharing dealing=verified questions "
            "pairing ranges validity validity_messages disclosure.policy disclosure.silence",
            "secfc.disclosure": "disclosure.final=final_labels",
            "secfc.disclosure.decoded": "disclosure.distances disclosure.dealt=polynomials",
            "secfc.disclosure.compare": "disclosure.match disclosure.dealing=dealer "
            "disclosure.compared=server",
            "secfc.disclosure.joint": "disclosure.undealt joint_messages=messages",
            "secfc.disclosure.noise": "disclosure.budgeted disclosure.noise_at_server=at_server "
            "disclosure.noise_in_shares=in_shares privacy.distances=sensitivity privacy.noisy=noise",
            "secfc.exact": "predict course cautions words plaintext readings replay",
        },
    )
    | {
        "secfc.clustering": ("secfc.algorithm", "secfc.fitting", "secfc.data.inputs", "secfc.lloyd.loop"),
        "secfc.federation": ("secfc.data.federation", "secfc.data.party"),
        "secfc.files": ("secfc.data.files", "secfc.data.federation"),
        "secfc.messages": (
            "secfc.coded.messages",
            "secfc.coded.union_messages",
            "secfc.roles.messages",
            "secfc.roles.checks",
            "secfc.kfed",
            "secfc.exact.plaintext",
        ),
        "secfc.disclosure.committee": (
            "secfc.disclosure.compare.member",
            "secfc.disclosure.compare.participant",
        ),
        "secfc.source": ("secfc.coded.source", "secfc.coded.quorum"),
        "secfc.screening": ("secfc.coded.screening", "secfc.roles.accept"),
        "secfc.network": ("secfc.transport.network", "secfc.transport.link"),
        "secfc.sealed": ("secfc.transport.sealed", "secfc.transport.handshake"),
        "secfc.simulate": ("secfc.transport.simulate", "secfc.roles.transcript"),
        "secfc.report.membership": ("secfc.exact.account",),
        "secfc.attacks.replay": ("secfc.exact.replay", "secfc.report.curious"),
        "secfc.views": ("secfc.attacks.views", "secfc.attacks.seen"),
        "secfc.summing": ("secfc.feddp.messages", "secfc.sums"),
    }
)
