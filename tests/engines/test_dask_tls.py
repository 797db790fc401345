"""A cluster that speaks TLS, with certificates of an authority of its own."""

import datetime
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

pytest.importorskip("distributed", reason="Dask is not installed: pip install unfit[cluster]")

import dask
from distributed import LocalCluster
from distributed.security import Security

import clusters
import unfit
from unfit.engines import Dask
from unfit.engines.cluster.connection import disconnect_all
from unfit.errors import BadInput, Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]


class Authority:
    """A certificate authority: its own certificate, and others that it signs, as files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        self.file = self._written("ca", self._signed(self._name, self._key.public_key(), True))

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePublicKey, root: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=root, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)

    def _written(self, name: str, content: bytes) -> str:
        path = self.folder / f"{name}.pem"
        path.write_bytes(content)
        return str(path)

    def configuration(self) -> dict[str, object]:
        """Of Dask, for a scheduler, workers and clients with certificates from here."""
        found: dict[str, object] = {"distributed.comm.tls.ca-file": self.file}
        for role in ("scheduler", "worker", "client"):
            key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, role)])
            found[f"distributed.comm.tls.{role}.cert"] = self._written(
                role, self._signed(name, key.public_key(), False)
            )
            found[f"distributed.comm.tls.{role}.key"] = self._written(
                f"{role}-key",
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                ),
            )
        return found


@contextmanager
def encrypted(folder: Path, authority: Authority) -> Iterator[str]:
    """The address of a cluster of two workers."""
    settings = {
        **clusters.CONFIGURATION,
        **authority.configuration(),
        "distributed.comm.require-encryption": True,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            protocol="tls://",
            security=Security(),
            host="127.0.0.1",
            dashboard_address=":0",
            local_directory=str(folder),
            memory_limit=0,
        ) as running,
    ):
        try:
            yield str(running.scheduler_address)
        finally:
            disconnect_all()


def fitted(engine: Dask | None) -> unfit.LogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6)).astype(np.float32)
    y = (X @ rng.standard_normal(6) + rng.standard_normal(4000) > 0).astype(int)
    return unfit.LogisticRegression("newton", engine=engine).fit(X, y).unlearn([3, 1700])


def test_a_cluster_that_speaks_tls(tmp_path: Path) -> None:
    with encrypted(tmp_path, Authority(tmp_path / "ours")) as address:
        assert address.startswith("tls://")
        ours, theirs = fitted(Dask(address, folder=str(tmp_path))), fitted(None)
        apart = np.linalg.norm(ours.coef_ - theirs.coef_)
        assert apart <= 1e-8 * np.linalg.norm(theirs.coef_)
        del ours
        with pytest.raises(Unavailable, match="no Dask scheduler answers at tcp://"):
            fitted(Dask(address.replace("tls", "tcp")))


def test_a_stranger_is_not_let_in(tmp_path: Path) -> None:
    strangers = Authority(tmp_path / "strangers").configuration()
    with (
        encrypted(tmp_path, Authority(tmp_path / "ours")) as address,
        dask.config.set(strangers),
        pytest.raises(Unavailable, match="no Dask scheduler answers at tls://"),
    ):
        fitted(Dask(address, folder=str(tmp_path)))


@pytest.mark.parametrize("address", ["tcp://192.0.2.7:8786", "tcp://[2001:db8::7]:8786"])
def test_other_machines_are_not_spoken_to_in_plain_text(address: str) -> None:
    with pytest.raises(BadInput, match="does not use TLS"):
        Dask(address)
