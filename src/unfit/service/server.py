"""A listening socket, and the API process that answers on it with uvicorn."""

import gc
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from unfit.errors import BadInput, Unavailable
from unfit.service.log import LogOutput

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
        reason = getattr(error, "strerror", None) or str(error)
        raise Unavailable(
            f"cannot listen on {host}:{port}: {reason}; choose another port with --port"
        ) from None
    made.listen(2048)
    made.set_inheritable(True)
    return made


def answer(folder: Path, handle: int) -> None:
    """Run an API process on a socket that its parent holds."""
    from unfit.service.app import make_app
    from unfit.service.child_process import lifeline

    allow_connections()
    lifeline()
    output = LogOutput(batch_seconds=LOG_SECONDS)
    output.install()
    app = make_app(folder)
    gc.collect()
    gc.freeze()  # what exists now stays, so no collection has to look at it while a request waits
    run(app, handle)
    output.close()


def run(app: "FastAPI", handle: int) -> None:
    """Serve any app.

    The socket is opened here because uvicorn would take the handle for a Unix socket and leave
    Nagle's algorithm on, which delays answers by 40 ms.
    """
    import uvicorn

    from unfit.service.protocol import TimeLimitedProtocol

    config = uvicorn.Config(
        app,
        http=TimeLimitedProtocol,
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
            f"{error.name} is not installed; install it with: pip install 'unfit[service]'"
        ) from None
