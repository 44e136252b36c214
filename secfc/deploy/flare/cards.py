"""Who a site of FLARE is in a run: its identity, signed with the key of its FLARE certificate.

A run file pins identities already, so a card adds a second opinion: whoever provisions FLARE's certificates
says which site has which name, the sites' own telephone calls say which identity, and both must fit.  Neither
alone lets anybody speak in a site's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from secfc.roles.exchange import SERVER, PartyId

PADDING = padding.PSS(padding.MGF1(SHA256()), 32)


class BadCard(ValueError):  # noqa: N818 - what it is
    """A card that shows no right to its name."""


@dataclass(frozen=True)
class Card:
    """identity: 32 bytes.  certificate: PEM.  signature: under the certificate's key."""

    identity: bytes
    certificate: bytes
    signature: bytes

    def __repr__(self) -> str:
        return f"Card({self.identity.hex()[:16]})"

    def plain(self) -> dict[str, bytes]:
        """As FLARE carries it."""
        return {"identity": self.identity, "certificate": self.certificate, "signature": self.signature}

    @classmethod
    def of(cls, plain: object) -> Card:
        """Raises BadCard for what is none."""
        names = ("identity", "certificate", "signature")
        if not isinstance(plain, Mapping) or not all(isinstance(plain.get(n), bytes) for n in names):
            raise BadCard("something else than a card came")
        return cls(*(plain[n] for n in names))


def to_sign(run: bytes, party: PartyId, identity: bytes) -> bytes:
    """What a card signs.  run: 32 bytes, the digest of the run file."""
    return b"secfc flare card 1" + run + identity + party.encode()


@dataclass(frozen=True)
class Kit:
    """A startup kit of FLARE: the folder that `nvflare provision` makes for one site."""

    folder: Path

    @property
    def startup(self) -> Path:
        """What FLARE's certificate authority issued."""
        return self.folder / "startup"

    @property
    def is_server(self) -> bool:
        """Whether it is the server's."""
        return (self.startup / "server.key").exists()

    def _read(self, end: str) -> bytes:
        return (self.startup / f"{'server' if self.is_server else 'client'}.{end}").read_bytes()

    @property
    def name(self) -> str:
        """The name that FLARE knows this site by."""
        return name_in(x509.load_pem_x509_certificate(self._read("crt")))

    @property
    def server(self) -> str:
        """The name that FLARE knows the server by."""
        if self.is_server:
            return self.name
        found = json.loads((self.startup / "fed_client.json").read_text(encoding="utf-8"))["servers"][0]
        return str(found.get("identity") or found["name"])

    def card(self, run: bytes, party: PartyId, identity: bytes) -> Card:
        """This site's card for a run.  Raises OSError, BadCard for a key that signs in another way."""
        key = load_pem_private_key(self._read("key"), None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise BadCard(f"the key of {self.folder} is no RSA key, as FLARE's are")
        signature = key.sign(to_sign(run, party, identity), PADDING, SHA256())
        return Card(identity, self._read("crt"), signature)

    def check(self, card: Card, run: bytes, party: PartyId, identity: bytes) -> None:
        """See that a card is of this run, its certificate of this kit's root, its identity the pinned one.

        Raises BadCard, saying which it is not.
        """
        if card.identity != identity:
            raise BadCard(
                f"{party} comes with another identity than the run file pins for it: compare fingerprints "
                "with its owner (secfc deploy key), and run files with `secfc deploy check`"
            )
        root = x509.load_pem_x509_certificate((self.startup / "rootCA.pem").read_bytes())
        try:
            certificate = x509.load_pem_x509_certificate(card.certificate)
            certificate.verify_directly_issued_by(root)
        except (ValueError, TypeError, InvalidSignature):
            raise BadCard(f"the certificate of {party} is not issued by this site's root") from None
        wanted = self.server if party == SERVER else party
        if name_in(certificate) != wanted:
            raise BadCard(f"{party} comes with the certificate of another site, {name_in(certificate)!r}")
        key = certificate.public_key()
        try:
            if not isinstance(key, rsa.RSAPublicKey):
                raise InvalidSignature
            key.verify(card.signature, to_sign(run, party, identity), PADDING, SHA256())
        except InvalidSignature:
            raise BadCard(
                f"the certificate of {party} did not sign its identity for this run: its run file differs "
                "from this one, or somebody copied the certificate"
            ) from None


def name_in(certificate: x509.Certificate) -> str:
    """The common name of a certificate's owner."""
    found = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""
