"""The files that are handed on: one certificate with its proof, and the export of a whole log.

Both are JSON that can be written in one way only, so that a changed byte is noticed even where
nothing is signed. `unfit verify` reads them.
"""

from collections.abc import Iterable, Iterator, Sequence

from unfit.certify.rejections import as_bad_input
from unfit.certify.verify import (
    BUNDLE_TYPE,
    LOG_TYPE,
    Bundle,
    canonical,
    encode64,
    read_bundle,
    read_canonical,
)

__all__ = ["Bundle", "bundle", "export_lines", "read"]


def bundle(
    envelope: bytes,
    proof: str,
    annex: bytes | None = None,
    consistency: tuple[int, bytes, Sequence[bytes]] | None = None,
) -> bytes:
    """A certificate's file: sealed statement, proof of inclusion, and the sealed annex if the file
    is for an auditor.

    consistency: size and root of an older checkpoint that the reader holds, and the proof that the
    log has only grown since.
    """
    with as_bad_input():
        content: dict[str, object] = {
            "mediaType": BUNDLE_TYPE,
            "certificate": read_canonical(envelope, "the certificate's envelope"),
            "proof": proof,
        }
        if annex is not None:
            content["annex"] = read_canonical(annex, "the annex's envelope")
        if consistency is not None:
            size, root, path = consistency
            nodes = [encode64(node) for node in path]
            content["consistency"] = {"size": size, "root": encode64(root), "path": nodes}
        data = canonical(content) + b"\n"
        read_bundle(data)
    return data


def read(data: bytes) -> Bundle:
    """The parts of a certificate's file. Nothing is verified by this."""
    with as_bad_input():
        return read_bundle(data)


def export_lines(entries: Iterable[bytes], checkpoint: str) -> Iterator[bytes]:
    """A whole log, line by line: a head, the envelope of every entry, and a signed checkpoint."""
    with as_bad_input():
        yield canonical({"mediaType": LOG_TYPE}) + b"\n"
        for index, entry in enumerate(entries):
            certificate = read_canonical(entry, f"entry {index}")
            yield canonical({"index": index, "certificate": certificate}) + b"\n"
        yield canonical({"checkpoint": checkpoint}) + b"\n"
