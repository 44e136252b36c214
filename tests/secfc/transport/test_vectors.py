"""Test vectors: what another implementation can check itself with, made anew and compared here.

    python -m tests.secfc.transport.test_vectors      writes tests/vectors/*.json anew (but wire.json, see
    test_wire)

A file that changed means that this software no longer talks to that of before: raise `PROTOCOL` in
secfc/roles/description.py and write the files anew.  What is derived is derived a second time here, from the
files and the words of the docstrings alone.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

import secfc
from field.code.lagrange_code import LagrangeCode
from field.code.masking import PairKeys, mask_context, mask_for
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from field.secrets.channels import Identity, subkey
from field.secrets.coins import Coins, SeededCoins
from secfc.algorithm import PublicFacts
from secfc.coded.sharing import pair_keys
from secfc.roles import agreement
from secfc.roles.description import PROTOCOL, description_digest
from secfc.roles.exchange import SERVER
from secfc.transport import wire
from secfc.transport.handshake import Handshake
from secfc.transport.simulate import simulate

FOLDER = Path(__file__).parent.parent.parent / "vectors"
SESSION = bytes(range(32))
PARTIES = ("alpha", "beta", SERVER)
POINTS = np.array([[0, 0], [1, 0], [0, 2], [9, 9], [8, 9], [9, 7], [-9, 8], [-8, 8], [-9, 7], [1, 1]], float)


class Known(Coins):
    """Coins that hand out these bytes, one after the other."""

    def __init__(self, *values):
        self._values = list(values)

    def bytes(self, size):
        value = self._values.pop(0)
        assert len(value) == size
        return value


def secret(*words):
    """32 bytes that stand for a secret."""
    return hashlib.blake2b(repr(words).encode(), digest_size=32).digest()


def public_of(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


# --- the files ------------------------------------------------------------------------------------------


def keys():
    """Keys of masks between clients, of channels, and of streams."""
    plan = run_plan(RUNS["labels"])
    private = {name: secret("pairing", name) for name in plan.clients}
    roles = {name: pair_keys(plan, name, Known(private[name])) for name in plan.clients}
    rings = simulate(roles).results
    root = secret("root")
    stream = Coins(root[:16])
    return {
        "description": "Pairwise keys (pairing): X25519, then HKDF-SHA256 of 32 bytes, salt the plan's "
        "digest, info 'secfc pair' and for both clients, lower number first, the number (4 bytes, little-"
        "endian) and the public key. Subkeys (psu.keys.subkey): BLAKE2b of the label keyed by the root, "
        "person 'psu subkey'. Streams (field.secrets.coins): AES-128 in counter mode from block 0.",
        "plan digest": plan.digest().hex(),
        "clients": [
            {
                "private": private[name].hex(),
                "public": public_of(private[name]).hex(),
                "keys": {str(j): key.hex() for j, key in sorted(rings[name]._keys.items())},
            }
            for name in plan.clients
        ],
        "subkeys": [
            {"root": root.hex(), "label": label, "size": size, "key": subkey(root, label, size).hex()}
            for label, size in (("tag", 16), ("sealed 0>1 8589934592", 32))
        ],
        "stream": {"key": root[:16].hex(), "bytes": stream.bytes(40).hex()},
    }  # fmt: skip


def masks():
    """Zero-sum masks of replies, from keys and contexts."""
    cases = []
    for primes, n, lanes in ((LANE_PRIMES[:3], 5, 2), ((MERSENNE_61,), 3, 1)):
        code = LagrangeCode(Basis(primes), n, 1, 1)
        responders = tuple(range(code.threshold(2)))
        shape, subject = (2, 3), b"what is masked"
        context = mask_context(code, responders, lanes, shape, subject)
        shared = {(i, j): secret("mask", i, j) for i in responders for j in responders if i < j}
        own = []
        for me in responders:
            ring = PairKeys({j: shared[tuple(sorted((me, j)))] for j in responders if j != me})
            streams = ring.streams(7, context)
            mask = mask_for(code, responders, me, streams, lanes, shape)
            own.append(mask.tolist())
        cases.append(
            {
                "primes": list(primes), "n": n, "ell": 1, "t": 1, "lanes": lanes, "shape": list(shape),
                "responders": list(responders), "nonce": 7, "subject": subject.hex(),
                "context": context.hex(),
                "keys": [[i, j, key.hex()] for (i, j), key in shared.items()],
                "weights": code.decoding_weights(responders, 2)[1][:lanes].tolist(),
                "masks": own,
            }
        )  # fmt: skip
    return {
        "description": "Masks of replies (blind). context: BLAKE2b of the public parameters, person "
        "'secfc-context'. A pair's stream is AES-128 in counter mode under 16 bytes of BLAKE2b, person "
        "'secfc-blind', keyed by the pair's key, of the nonce (8 bytes, little-endian) and the context; its "
        "words, little-endian of 4 bytes (8 for 2**61 - 1), masked to the bits of the prime and drawn again "
        "while not below it, are the residues, lane by lane. masks[client][lane][row][column]: the sum over "
        "partners i of stream_i, negated where i is lower than the client, divided by the client's weight.",
        "cases": cases,
    }


def handshake():
    """The sealed handshake of three parties, and a message after it."""
    plan = b'{"protocol":0}'
    identities = {name: secret("identity", name) for name in PARTIES}
    nonces = {name: secret("nonce", name) for name in PARTIES}
    private = {name: secret("ephemeral", name) for name in PARTIES}
    hands = {
        j: Handshake(j, PARTIES, plan, Identity(identities[name]), Known(nonces[name], private[name]))
        for j, name in enumerate(PARTIES)
    }
    greetings = {j: h.greeting for j, h in hands.items()}
    said = {j: h.countersign({i: g for i, g in greetings.items() if i != j}) for j, h in hands.items()}
    for j, h in hands.items():
        for i in hands:
            if i != j:
                assert h.open(i, said[i][j]) == plan
    line = hands[0].channels()[2]
    label, text = "sealed 0>2 12884901888", b"a message as secfc.wire encodes it"
    return {
        "description": "The handshake: three parties, the first step and the second as wire messages, "
        "and one message that the first seals to the third in round 12884901888. Secrets stand for "
        "what a party draws: nonce, then the private X25519 key.",
        "parties": list(PARTIES),
        "plan": plan.decode(),
        "secrets": [
            {
                "identity": identities[name].hex(), "nonce": nonces[name].hex(),
                "ephemeral": private[name].hex(),
            }
            for name in PARTIES
        ],
        "greetings": [wire.encode(h.greeting).hex() for h in hands.values()],
        "countersignatures": [
            {"from": j, "to": i, "message": wire.encode(message).hex()}
            for j, out in said.items()
            for i, message in out.items()
        ],
        "sealed": {"label": label, "message": text.hex(), "ciphertext": line.seal(label, text).hex()},
    }  # fmt: skip


def commitments():
    """Coins that clients toss together."""
    table = agreement.CoinToss(("alpha", "beta", "gamma"), description_digest(b'{"protocol":0}'), 2)
    coins = [secret("coin", j) for j in range(3)]
    there = np.array([True, False, True])
    values = np.frombuffer(coins[0] + coins[2], np.uint8).reshape(2, 32)
    seed = table.seed(there, values)
    return {
        "description": "Coins (toss): the commitment of a client is BLAKE2b, person 'secfc-commit', of the "
        "digest, the attempt and the client's number (4 bytes each, little-endian) and the coin; the seed "
        "is that, person 'secfc-toss', of the digest, a byte for every client whether its coin counts, and "
        "those coins.",
        "digest": table.digest.hex(),
        "coins": [coin.hex() for coin in coins],
        "commitments": [
            {"attempt": attempt, "client": j, "digest": table.commitment(attempt, j, coin).hex()}
            for attempt in (0, 1)
            for j, coin in enumerate(coins)
        ],
        "seed": {"there": there.tolist(), "seed": seed.hex()},
        "for a purpose": {
            "purpose": "secfc-vector",
            "seed": agreement.derive_seed(seed, b"secfc-vector").hex(),
        },
    }


# Few steps: a vector has a line for each message.
SHORT = {"k": 3, "threshold": 1, "max_iter": 1, "init": secfc.Bisecting(steps=1)}
RUNS = {
    "labels": secfc.SecFC(**SHORT),
    "distances": secfc.SecFC(**SHORT, disclosure=secfc.Distances()),
}


def hold_vectors():
    return secfc.Federation.from_arrays(
        [POINTS[:4], POINTS[4:7], POINTS[7:]], names=["alpha", "beta", "gamma"]
    )


def run_plan(algorithm):
    return algorithm.plan(dataclasses.replace(PublicFacts.of(hold_vectors(), 16.0), session=SESSION))


def run_vectors():
    """Whole runs under seeded coins."""
    runs = {}
    for name, algorithm in RUNS.items():
        plan, fed = run_plan(algorithm), hold_vectors()
        roles = {p.name: algorithm.client(plan, p, coins=SeededCoins(3, p.name)) for p in fed.parties}
        roles[SERVER] = algorithm.server(plan, rng=np.random.default_rng(4), coins=SeededCoins(3, SERVER))
        done = simulate(roles, keep_bodies=True)
        trace = done.results[SERVER].trace
        runs[name] = {
            "plan": plan.description.decode(),
            "digest": plan.digest().hex(),
            "messages": [
                [
                    e.round, e.sender, e.recipient, e.kind, wire.encoded_size(e.body),
                    hashlib.blake2b(wire.encode(e.body), digest_size=16).hexdigest(),
                ]
                for e in done.transcript.envelopes
            ],
            "labels": [labels.tolist() for labels in trace.history],
        }  # fmt: skip
    return {
        "description": "Whole runs of SecFC by three clients that hold 4, 3 and 3 of these points, within "
        "16: the plan as parties compare it, every message (round, sender, recipient, kind, size of its "
        "encoding and BLAKE2b-128 of that) in the order in which one process sends them, and the labels "
        "before the first step and after each. The coins of a party are AES-128 in counter mode under "
        "BLAKE2b-128, person 'secfc-coins', of '3|' and its name; the server's starts are NumPy's "
        "default_rng(4). Written by python -m tests.secfc.transport.test_vectors.",
        "protocol": PROTOCOL,
        "points": POINTS.astype(int).tolist(),
        "runs": runs,
    }


FILES = {"keys": keys, "masks": masks, "handshake": handshake, "commitments": commitments, "run": run_vectors}


def path(name):
    return FOLDER / f"{name}.json"


def text(contents):
    """JSON with a line for each message: differences are seen."""
    return json.dumps(contents, indent=1) + "\n"


@pytest.mark.parametrize("name", FILES)
def test_vectors_never_change(name):
    again = "another protocol? Raise PROTOCOL, then: python -m tests.secfc.transport.test_vectors"
    assert json.loads(path(name).read_text()) == json.loads(text(FILES[name]())), again


# --- a second derivation ----------------------------------------------------------------------------------


def load(name):
    return json.loads(path(name).read_text())


def blake(data, size, person, key=b""):
    return hashlib.blake2b(data, digest_size=size, person=person, key=key).digest()


def hkdf(shared, size, salt, info):
    return HKDF(algorithm=SHA256(), length=size, salt=salt, info=info).derive(shared)


def exchange(private, public):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))


def stream(key, size):
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))


def number(value):
    return value.to_bytes(4, "little")


def test_keys_again():
    file = load("keys")
    clients = file["clients"]
    for j, client in enumerate(clients):
        for i, key in client["keys"].items():
            public = {k: bytes.fromhex(clients[k]["public"]) for k in (j, int(i))}
            low, high = sorted(public)
            info = b"secfc pair" + number(low) + public[low] + number(high) + public[high]
            shared = exchange(bytes.fromhex(client["private"]), public[int(i)])
            assert hkdf(shared, 32, bytes.fromhex(file["plan digest"]), info).hex() == key
    for sub in file["subkeys"]:
        root = bytes.fromhex(sub["root"])
        assert blake(sub["label"].encode(), sub["size"], b"psu subkey", root).hex() == sub["key"]
    assert stream(bytes.fromhex(file["stream"]["key"]), 40).hex() == file["stream"]["bytes"]


def residues(key, prime, count):
    """The first residues of a stream: those words below the prime stay where they are, as all do here."""
    size = 8 if prime == MERSENNE_61 else 4
    words = [
        int.from_bytes(key[i * size : (i + 1) * size], "little") & ((1 << (prime - 1).bit_length()) - 1)
        for i in range(count)
    ]
    assert all(word < prime for word in words), "a word was drawn again: choose another key"
    return words, key[count * size :]


def test_masks_again():
    for case in load("masks")["cases"]:
        shared = {(i, j): bytes.fromhex(key) for i, j, key in case["keys"]}
        text = case["nonce"].to_bytes(8, "little") + bytes.fromhex(case["context"])
        shape = case["shape"]
        count = shape[0] * shape[1]
        sums = np.zeros((case["lanes"], count), object)
        for me in case["responders"]:
            for lane, prime in enumerate(case["primes"][: case["lanes"]]):
                total = [0] * count
                for i in case["responders"]:
                    if i == me:
                        continue
                    key = blake(text, 16, b"secfc-blind", shared[min(i, me), max(i, me)])
                    rest = stream(key, 8 * count * case["lanes"])
                    for skipped in case["primes"][: lane + 1]:
                        words, rest = residues(rest, skipped, count)
                    sign = 1 if me < i else -1
                    total = [(a + sign * b) % prime for a, b in zip(total, words, strict=True)]
                weight = case["weights"][lane][case["responders"].index(me)]
                mask = [a * pow(weight, -1, prime) % prime for a in total]
                flat = np.array(case["masks"][me][lane], object).reshape(-1)
                assert flat.tolist() == mask
                sums[lane] = [(s + weight * a) % prime for s, a in zip(sums[lane], mask, strict=True)]
        assert not sums.any()


def test_handshake_again():
    file = load("handshake")
    names, secrets, plan = file["parties"], file["secrets"], file["plan"].encode()
    parties = blake(b"".join(len(n).to_bytes(8, "little") + n.encode() for n in names), 32, b"secfc parties")
    digest = blake(plan, 32, b"secfc agreement")
    contents, hashes = [], []
    for j, own in enumerate(secrets):
        identity = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(own["identity"]))
        parts = [
            digest, identity.public_key().public_bytes_raw(), bytes.fromhex(own["nonce"]),
            public_of(bytes.fromhex(own["ephemeral"])),
        ]  # fmt: skip
        contents.append(parts)
        hashes.append(blake(parties + number(j) + b"".join(parts), 32, b"secfc greeting"))
        parts = [*parts, identity.sign(b"secfc greeting 1" + hashes[j])]
        encoded = b"\1" + (131).to_bytes(2, "little")
        encoded += b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        assert encoded.hex() == file["greetings"][j]
    everything = b"".join(hashes)

    def pair(j, i, salt, purpose):
        """Keys from the lower to the higher party, and back, and of streams; the label's key seals."""
        low, high = sorted((j, i))
        shared = exchange(bytes.fromhex(secrets[j]["ephemeral"]), contents[i][3])
        return hkdf(shared, 96, salt, purpose + number(low) + number(high))

    def seal(key, label, payload, context):
        cipher = AESGCM(blake(label.encode(), 32, b"psu subkey", key))
        return cipher.encrypt(bytes(12), payload, context + label.encode())

    for item in file["countersignatures"]:
        j, i = item["from"], item["to"]
        identity = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secrets[j]["identity"]))
        signature = identity.sign(b"secfc transcript 1" + number(j) + number(i) + everything)
        salt = blake(hashes[min(i, j)] + hashes[max(i, j)], 32, b"secfc pair greet")
        keys = pair(j, i, salt, b"secfc confirm")
        key = keys[:32] if j < i else keys[32:64]
        # All digests are equal, so that no plan is told.
        ciphertext = seal(key, "countersign", signature + everything, salt)
        encoded = b"\1" + (132).to_bytes(2, "little") + len(ciphertext).to_bytes(8, "little") + ciphertext
        assert encoded.hex() == item["message"]
    salt = blake(everything, 32, b"secfc all greet")
    line = pair(0, 2, salt, b"secfc line")
    got = seal(line[:32], file["sealed"]["label"], bytes.fromhex(file["sealed"]["message"]), salt)
    assert got.hex() == file["sealed"]["ciphertext"]


def test_commitments_again():
    file = load("commitments")
    digest, coins = bytes.fromhex(file["digest"]), [bytes.fromhex(coin) for coin in file["coins"]]
    for item in file["commitments"]:
        place = number(item["attempt"]) + number(item["client"])
        got = blake(digest + place + coins[item["client"]], 32, b"secfc-commit")
        assert got.hex() == item["digest"]
    there = file["seed"]["there"]
    kept = b"".join(coin for coin, counts in zip(coins, there, strict=True) if counts)
    seed = blake(digest + bytes(there) + kept, 32, b"secfc-toss")
    assert seed.hex() == file["seed"]["seed"]
    purpose = file["for a purpose"]
    assert blake(seed, 32, purpose["purpose"].encode()).hex() == purpose["seed"]


def test_the_run_again():
    file = load("run")
    assert file["protocol"] == PROTOCOL
    points = np.array(file["points"])
    for one in file["runs"].values():
        assert blake(one["plan"].encode(), 32, b"secfc agreement").hex() == one["digest"]
        # Plaintext Lloyd, over fractions: every step's labels.
        for before, after in zip(one["labels"], one["labels"][1:], strict=False):
            groups = [np.flatnonzero(np.array(before) == h) for h in range(3)]
            scaled = [
                [
                    float(((points[i] * len(g) - points[g].sum(axis=0)) ** 2).sum()) / len(g) ** 2
                    if len(g)
                    else np.inf
                    for g in groups
                ]
                for i in range(len(points))
            ]
            assert np.argmin(scaled, axis=1).tolist() == after


if __name__ == "__main__":
    for name, make in FILES.items():
        path(name).write_text(text(make()))
