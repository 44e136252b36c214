"""Pairwise keys between clients: what masks that cancel are expanded from.

Ephemeral X25519, and HKDF-SHA256 bound to the plan and both public keys.  The keys are as authentic as the
transport between clients; a client whose message did not come has no key, and neither side masks with it.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from field.code.masking import PairKeys
from field.secrets.coins import Coins
from secfc.coded.messages import PublicKey
from secfc.coded.plan import CodedPlan
from secfc.roles.checks import check_all, well_formed
from secfc.roles.exchange import PAIR, Exchange, PartyId, Role, blame_error, to_all


def pair_keys(plan: CodedPlan, name: PartyId, coins: Coins) -> Role[PairKeys]:
    """The secret keys this client shares with every other that is there, by number of the client.

    Raises FaultyClient for a key that is none.
    """
    me = plan.clients.index(name)
    others = tuple(c for c in plan.clients if c != name)
    private = X25519PrivateKey.from_private_bytes(coins.bytes(32))
    public = private.public_key().public_bytes_raw()
    inbox = yield Exchange(to_all(others, PublicKey(public)), others, 0, round=PAIR, phase="pair")
    keys = {}
    # With liars planned for, a key that is none counts as one that did not come.
    came = (well_formed if plan.liars else check_all)(inbox, PublicKey, lambda sender, message: None)
    for sender, message in came.items():
        j = plan.clients.index(sender)
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(message.key))
        except ValueError as error:
            if plan.liars:
                continue
            raise blame_error(sender, "sent a public key that is none") from error
        low, high = sorted(((me, public), (j, message.key)))
        info = b"secfc pair" + b"".join(i.to_bytes(4, "little") + key for i, key in (low, high))
        keys[j] = HKDF(algorithm=SHA256(), length=32, salt=plan.digest(), info=info).derive(shared)
    return PairKeys(keys)
