"""A listening socket, and the API process that answers on it with uvicorn."""

import gc
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from unfit.errors import BadInput, Unavailable
from unfit.service.log import Log, take_all

if TYPE_CHECKING:
    from fastapi import FastAPI

CONNECTIONS = 4096
KEEP_ALIVE_SECONDS = 30
LOG_SECONDS = 0.05


def listen(host: str, port: int) -> socket.socket:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(kind, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        said = getattr(error, "strerror", None) or str(error)
        raise Unavailable(f"cannot listen on {host}:{port}: {said}; --port names another") from None
    made.listen(2048)
    made.set_inheritable(True)
    return made


def answer(folder: Path, handle: int) -> None:
    """An API process on a socket that its parent holds."""
    from unfit.service.app import make_app
    from unfit.service.child_process import lifeline

    allow_connections()
    lifeline()
    log = Log(every=LOG_SECONDS)
    take_all(log)
    app = make_app(folder, log=log)
    gc.collect()
    gc.freeze()  # what is here stays: no collection need look at it while a request waits
    run(app, handle)


def run(app: "FastAPI", handle: int) -> None:
    """Serve an app, ours or another.

    The socket is opened here and not by uvicorn, which takes every handle for a unix socket:
    answers would wait 40 ms for Nagle's algorithm.
    """
    import uvicorn

    from unfit.service.protocol import PatientProtocol

    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        loop="uvloop",
        lifespan="on",
        access_log=False,
        log_level="warning",
        log_config=None,
        server_header=False,
        backlog=2048,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=5,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=handle)])


def allow_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_installed() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise BadInput(
            f"{error.name} is not installed; the service wants: pip install 'unfit[service]'"
        ) from None
