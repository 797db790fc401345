"""The least a service like ours could do: a constant answer behind the same server settings.

`python -m benchmarks.load.constant SOCKET BYTES` answers on a socket that its parent holds.
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI, Response

from unfit.service.server import listen, run

from .http_client import Address
from .service import environment


def constant_app(nbytes: int) -> FastAPI:
    """One route, which answers with nbytes of JSON."""
    app = FastAPI(openapi_url=None)
    content = json.dumps({"padding": "x" * (nbytes - len('{"padding": ""}'))}).encode()

    @app.post("/v1/predictions")
    async def answer() -> Response:
        return Response(content, media_type="application/json")

    return app


@contextmanager
def serving(processes: int, nbytes: int) -> Iterator[Address]:
    listening = listen("127.0.0.1", 0)
    handle = listening.fileno()
    command = [sys.executable, "-m", f"{__package__}.constant", str(handle), str(nbytes)]
    running = [
        subprocess.Popen(command, pass_fds=(handle,), env=environment()) for _ in range(processes)
    ]
    port = listening.getsockname()[1]
    try:
        for _ in range(5 * processes):  # likely by each of them: they are up
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/predictions", b"{}")
            urllib.request.urlopen(request, timeout=60).close()
        yield Address("127.0.0.1", port, "none")
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)
        listening.close()


if __name__ == "__main__":
    run(constant_app(int(sys.argv[2])), int(sys.argv[1]))
