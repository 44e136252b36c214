"""Lines between processes: certificates, proxies, what a hub holds, and which sockets are open."""

import asyncio
import contextlib
import datetime
import ipaddress
import os
import signal
import socket
import ssl
import struct
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("websockets")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import secfc
from field.secrets.coins import SystemCoins
from secfc.cli.deploy.join import problems_told
from secfc.cli.deploy.logs import Log
from secfc.cli.shell.errors import Failed, Suspended
from secfc.deploy.keys import load_key_file
from secfc.deploy.reconnect import NotAdmitted, UnconnectedChannel, run_with_reconnect
from secfc.deploy.rendezvous import take_part_at_hub
from secfc.roles.exchange import Exchange
from secfc.roles.messages import Hello
from secfc.transport.sealed import seal_role
from tests.secfc.deploy.sites import QUICK, blobs, sites

pytestmark = pytest.mark.deployment
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


ROWS = blobs((17, 20, 14))
BASE = {"bound": 32.0, "t": 1}
LONG = {**BASE, "init": "random", "n_init": 4}


def right(run, algorithm=None):
    """Whether all sites ended well, with the labels of plaintext k-means."""
    assert set(run.everybody().values()) == {0}, "\n".join(map(run.log, (*run.rows, "server", "hub")))
    federation = secfc.Federation.from_arrays(list(run.rows.values()), names=tuple(run.rows))
    want = secfc.fit(algorithm or secfc.Lloyd(3), federation, seed=3, bound=32.0)
    for client, labels in zip(run.rows, want.labels, strict=True):
        assert (run.labels(client) == labels).all()


# --- certificates ----------------------------------------------------------------------------------------


def certificate(name, signer=None, address=None, hours=1.0):
    """A key and its certificate: a CA's own, or one that a CA signed for an address."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, by = (subject, key) if signer is None else (signer[1].subject, signer[0])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=hours))
        .add_extension(x509.BasicConstraints(signer is None, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False
        )
    )  # fmt: skip
    if signer is None:
        usage = {name: name == "key_cert_sign" for name in USAGES}
        made = made.add_extension(x509.KeyUsage(**usage), critical=True)
    if address is not None:
        names = [x509.IPAddress(ipaddress.ip_address(address))]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return key, made.sign(by, hashes.SHA256())


USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def pem(made):
    return made.public_bytes(serialization.Encoding.PEM).decode("ascii")


def with_tls(run, signer, hours=1.0):
    """The hub speaks TLS, by a certificate of this CA, for so many hours from now."""
    key, made = certificate("hub", signer, "127.0.0.1", hours)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (run.folder / "hub.pem").write_text(pem(made))
    (run.folder / "hub.key").write_bytes(secret)
    run.hub_words = ["--certificate", str(run.folder / "hub.pem"), "--key", str(run.folder / "hub.key")]
    run.change(hub=f"wss://127.0.0.1:{run.port}")


def test_a_hub_is_known_by_the_certificate_of_the_run_file(tmp_path, nursery):
    trusted, other = certificate("ours"), certificate("theirs")
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        with_tls(run, trusted)
        run.change(authority=pem(other[1]))
        run.start("hub")
        run.until_said("hub", "listens: wss://")
        assert run.start("site-0").wait(50) == 1  # patience is longer
        assert "certificate that this site does not trust" in run.log("site-0")
        assert "--authority" in run.log("site-0")
        assert run.start("check", str(tmp_path / "site-0" / "site.toml")).wait(20) == 1
        assert "certificate that this site does not trust" in run.log("check")
        # The address is part of what is certified.
        run.change(authority=pem(trusted[1]), hub=f"wss://localhost:{run.port}")
        assert run.start("site-0").wait(20) == 1
        assert "localhost" in run.log("site-0")
        run.change(hub=f"wss://127.0.0.1:{run.port}")
        # One that ran out is renewed by others: who starts meanwhile is started again by its service.
        for hours, code in ((-0.5, 75), (1.0, None)):
            run.kill("hub")
            with_tls(run, trusted, hours)
            (tmp_path / "hub.log").unlink()
            run.start("hub")
            run.until_said("hub", "listens: wss://")
            assert code is None or run.start("site-0").wait(20) == code
        assert "certificate has expired" in run.log("site-0")
        assert "the same command goes on" in run.log("site-0")
        for name in (*ROWS, "server"):
            run.start(name)
        right(run)


class Broken(UnconnectedChannel):
    def __init__(self):
        self.ended = asyncio.Event()
        self.ended.set()


@pytest.mark.parametrize(("before", "cause", "ends"), [
    (1, ssl.SSLCertVerificationError("expired"), False),
    (1, None, True),  # the hub does not know the party any more
    (0, ssl.SSLCertVerificationError("expired"), True),  # nor was it known before
])  # fmt: skip
def test_a_certificate_that_is_not_trusted_any_more_is_waited_for_in_a_run(before, cause, ends):
    async def meet_again():
        meetings = 0

        async def meet(peer):
            nonlocal meetings
            meetings += 1
            if before < meetings <= before + 2:
                raise NotAdmitted("not trusted") from cause
            return Broken()

        role = (exchange for exchange in [Exchange({}, ("b",), round=1)])
        running = asyncio.create_task(run_with_reconnect(role, meet, ("b",), None, rejoin=20.0))
        while meetings < 5 and not running.done():
            await asyncio.sleep(0.01)
        if running.done():
            await running
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with pytest.raises(NotAdmitted) if ends else contextlib.nullcontext():
        asyncio.run(asyncio.wait_for(meet_again(), 20))


@pytest.mark.parametrize("out_of_date", [False, True])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("trusted", [False, True])
def test_a_site_that_resumes_waits_for_any_certificate_and_a_new_one_for_a_date(
    out_of_date, begun, trusted, tmp_path
):
    cause = None if trusted else ssl.SSLCertVerificationError("not trusted")
    if cause is not None:
        cause.verify_code = 10 if out_of_date else 19
    waits = not trusted and (begun or out_of_date)
    with (
        Log.open("a") as log,
        pytest.raises(Suspended if waits else Failed),
        problems_told(tmp_path, log, begun),
    ):
        raise NotAdmitted("not admitted") from cause


@pytest.mark.nightly
def test_check_says_why_a_certificate_is_not_trusted_and_which_ends_soon(tmp_path, nursery):
    signer = certificate("ours", hours=24 * 365)
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        run.change(authority=pem(signer[1]))
        path, codes = str(tmp_path / "site-0" / "site.toml"), []
        for number, hours in enumerate((-0.5, 24 * 29.5, 24 * 40)):
            with_tls(run, signer, hours)
            (tmp_path / "hub.log").unlink(missing_ok=True)
            run.start("hub")
            run.until_said("hub", "listens: wss://")
            (tmp_path / "check.log").unlink(missing_ok=True)
            codes.append((run.start("check", path).wait(60), "certificate" in run.log("check")))
            said = ("expired): whoever runs the hub renews it", "expires in 29 days", "ok    hub")
            assert said[number] in run.log("check")
            run.kill("hub")
        assert codes == [(1, True), (0, True), (0, False)]
        run.hub_words = ["--plain"]
        (tmp_path / "hub.log").unlink()
        run.start("hub")
        run.until_said("hub", "listens: ws://")
        assert run.start("check", path).wait(60) == 1
        assert "with TLS as its address says" in run.log("check")
        assert "reached ()" not in run.log("check")


def test_who_offers_no_current_tls_is_no_hub(tmp_path, nursery):
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        with_tls(run, certificate("ours"))
        run.start("hub")
        run.until_said("hub", "listens")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", run.port), 5) as plain, pytest.raises(ssl.SSLError):
            old.wrap_socket(plain)
        old.maximum_version = ssl.TLSVersion.TLSv1_3
        with socket.create_connection(("127.0.0.1", run.port), 5) as plain, old.wrap_socket(plain) as made:
            assert made.version() == "TLSv1.3"


# --- proxies ---------------------------------------------------------------------------------------------


class Proxy:
    """An HTTP proxy that lets CONNECT through.  asked: the first lines it was sent."""

    def __init__(self):
        self.asked, self.listening = [], socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        head = b""
        while b"\r\n\r\n" not in head:
            head += near.recv(1)
        line = head.split(b"\r\n")[0].decode()
        self.asked.append(line)
        host, _, port = line.split()[1].partition(":")
        far = socket.create_connection((host, int(port)))
        near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=pump, args=(far, near), daemon=True).start()
        pump(near, far)

    def close(self):
        self.listening.close()


def pump(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        end.close()


@pytest.mark.nightly
@pytest.mark.parametrize("secure", [True, False])
def test_sites_go_out_through_the_proxy_of_their_environment(tmp_path, nursery, secure):
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        if secure:
            ours = certificate("ours")
            with_tls(run, ours)
            run.change(authority=pem(ours[1]))
        proxy = Proxy()
        try:
            run.start("hub")
            for name in ROWS:
                run.start(name, https_proxy=proxy.url, no_proxy="")
            run.start("server")  # it needs none
            right(run)
        finally:
            proxy.close()
        # Of every client one connection to each of three others.
        assert proxy.asked == [f"CONNECT 127.0.0.1:{run.port} HTTP/1.1"] * 9


# --- two runs --------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_two_runs_at_once_through_one_hub(tmp_path, nursery):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    rows = {"one": ROWS, "two": blobs((16, 19, 12), seed=8)}
    more = {"k": 3, "options": LONG, "nursery": nursery}
    with sites(folders[0], rows["one"], **more) as one, sites(folders[1], rows["two"], **more) as two:
        # The same keys serve in both: only the session tells them apart.
        for name in (*ROWS, "server"):
            (folders[1] / name / "site.key").write_bytes((folders[0] / name / "site.key").read_bytes())
        two.change(identities=one.run.identities, hub=one.run.hub)
        one.hub_words = [str(folders[1] / "run.toml"), "--plain"]
        one.start("hub")
        for run in (one, two):
            for name in (*ROWS, "server"):
                run.start(name)
        lloyd = secfc.Lloyd(3, init=secfc.RandomLabels(), n_init=4)
        right(one, lloyd)
        right(two, lloyd)


# --- what is where ---------------------------------------------------------------------------------------


def memory(pid, *marks):
    """Whether each of these bytes is anywhere in the memory of a process."""
    found = [False] * len(marks)
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb", 0) as mem:
        for line in maps:
            where, rights = line.split()[:2]
            if not rights.startswith("rw"):  # files as they are
                continue
            low, high = (int(end, 16) for end in where.split("-"))
            try:
                mem.seek(low)
                block = mem.read(high - low)
            except (OSError, ValueError, OverflowError):  # of the kernel
                continue
            found = [had or mark in block for had, mark in zip(found, marks, strict=True)]
    return found


VALUE = 7.654321
NAME = "patient-4f1c90e2-marked"


@LINUX
@pytest.mark.nightly
@pytest.mark.parametrize("membership", ["open", "private"])
def test_rows_and_their_names_are_nowhere_but_at_their_site(tmp_path, nursery, membership):
    rows = {name: own.copy() for name, own in ROWS.items()}
    rows["site-0"][4] = VALUE
    ids = {name: [f"{name} {i}" for i in range(len(own))] for name, own in rows.items()}
    ids["site-0"][4] = NAME
    marks = (NAME.encode(), str(VALUE).encode(), struct.pack("<d", VALUE))
    options = LONG if membership == "open" else {**LONG, "membership": membership}
    patient = replace(QUICK, pulse=40.0, rejoin=40.0, patience=40.0)
    # Command lines and environments are those of processes that were started, not forked.
    started = membership == "private"
    parent = None if started else nursery
    with sites(tmp_path, rows, ids=ids, k=3, options=options, nursery=parent, waiting=patient) as run:
        run.start_all()
        run.until("site-0", "clustering")
        stopped = tuple(run.processes)
        for name in stopped:
            os.kill(run.processes[name].pid, signal.SIGSTOP)
        # The search finds what is there.
        pid = run.processes["site-0"].pid
        assert any(memory(pid, *marks[1:])), "the site itself must hold its values"
        assert memory(pid, marks[0]) == [True]
        assert memory(run.processes["hub"].pid, run.run.session.hex().encode()) == [True]
        for name in ("hub", "server", "site-1"):
            assert memory(run.processes[name].pid, *marks) == [False] * 3, name
        said = {
            f"{path.parent.name}/{path.name}": path.read_bytes()
            for path in tmp_path.rglob("*") if path.is_file() and path.parent != tmp_path / "site-0"
        }  # fmt: skip
        assert {f"{name}.log" for name in (*rows, "server")} <= {Path(path).name for path in said}
        assert any(path.startswith("journal/") for path in said)
        for process in run.processes.values() if started else ():
            assert str(tmp_path).encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes()
            for part in ("cmdline", "environ"):
                said[f"{process.pid} {part}"] = Path(f"/proc/{process.pid}/{part}").read_bytes()
        assert marks[0] in (tmp_path / "site-0" / "rows.csv").read_bytes()
        for path, text in said.items():
            assert not any(mark in text for mark in marks), path
        for name in stopped:
            os.kill(run.processes[name].pid, signal.SIGCONT)
        assert set(run.everybody().values()) == {0}, run.log("server")
        assert memory(run.processes["hub"].pid, *marks) == [False] * 3
        assert NAME in (tmp_path / "site-0" / "results" / "labels.csv").read_text()


def whispers(peer, text, rounds):
    """A party that tells another the same, so many times."""
    for number in range(1, rounds + 1):
        yield Exchange({peer: Hello(text)}, (peer,), round=number)


@LINUX
@pytest.mark.nightly
@pytest.mark.parametrize("how", ["sealed", "open"])
def test_what_parties_tell_each_other_is_nowhere_in_the_hub(tmp_path, nursery, how):
    marker = os.urandom(20).hex().encode()
    with sites(tmp_path, ROWS, k=3, options=BASE, nursery=nursery) as run:
        run.start("hub")
        pair = ("site-0", "site-1")
        keys = {name: load_key_file(tmp_path / name / "site.key") for name in pair}
        pins = {name: key.public for name, key in keys.items()}

        async def party(name):
            (peer,) = (other for other in pair if other != name)
            role = whispers(peer, marker * 5000, 120 if how == "sealed" else 600)
            if how == "sealed":
                role = seal_role(role, name, pair, b"", SystemCoins(), identity=keys[name], identities=pins)
            session = run.run.session.hex()
            await take_part_at_hub(role, run.run.hub, session, name, (peer,), keys[name], None, patience=30.0)

        async def both():
            await asyncio.gather(*map(party, pair))

        talking = threading.Thread(target=asyncio.run, args=(both(),))
        talking.start()
        seen = 0
        while talking.is_alive():
            seen += memory(run.processes["hub"].pid, marker * 3)[0]
        # Where roles are not sealed it is there, as this search can tell.
        assert (seen > 0) == (how == "open")


# --- sockets ---------------------------------------------------------------------------------------------

LISTENS = "0A"


def sockets(pid):
    """Internet sockets of a process: protocol, own address, the other's, state."""
    own = {os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir() if f.is_symlink()}
    found = []
    for protocol in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
        for line in Path(f"/proc/{pid}/net/{protocol}").read_text().splitlines()[1:]:
            words = line.split()
            if f"socket:[{words[9]}]" in own:
                found.append((protocol, words[1], words[2], words[3]))
    return found


@LINUX
def test_open_sockets_are_those_that_the_page_lists(tmp_path, nursery):
    with sites(tmp_path, ROWS, k=3, options=LONG, nursery=nursery) as run:
        run.start_all()
        run.until("site-0", "clustering")
        hub = f"0100007F:{run.port:04X}"
        for name in (*ROWS, "server"):
            found = sockets(run.processes[name].pid)
            assert [s for s in found if s[3] == LISTENS] == []
            assert {(s[0], s[2]) for s in found} == {("tcp", hub)}, found
            assert len(found) == len(ROWS)  # one a peer
        found = sockets(run.processes["hub"].pid)
        assert [(s[0], s[1]) for s in found if s[3] == LISTENS] == [("tcp", hub)]
        assert {(s[0], s[1]) for s in found} == {("tcp", hub)}
        assert len(found) == 1 + len(ROWS) * (len(ROWS) + 1)
        limits = Path(f"/proc/{run.processes['hub'].pid}/limits").read_text()
        files = next(line.split() for line in limits.splitlines() if line.startswith("Max open files"))
        assert files[3] == files[4]  # where others may hold many
        assert set(run.everybody().values()) == {0}
