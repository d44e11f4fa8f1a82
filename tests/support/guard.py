"""
Run a server for as long as its starter lives: ``python guard.py DIRECTORY USER COMMAND ...``

The starter holds the other end of this process's standard input, and the system closes it however the starter
ends, by SIGKILL too. Then the server is stopped, and DIRECTORY removed. A starter that lives and wants the
server stopped in good order writes a word first; the directory is its own then.

:param USER: ``uid:gid`` of whom the server runs as, or nothing for oneself.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading

PATIENCE = 10.0


def main(argv: list[str]) -> int:
    """Start the server, and stop it when standard input ends."""
    directory, user, *command = argv
    uid, gid = (int(part) for part in user.split(":")) if user else (None, None)
    server = subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
    )
    farewell: list[bytes] = []

    def listen() -> None:
        farewell.append(os.read(0, 1))
        # Postgres calls it a fast shutdown where sessions are ended and all is written to the data's own
        # files, and an immediate one where that is left for a next start.
        server.send_signal(signal.SIGINT if farewell[0] else signal.SIGQUIT)
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()

    threading.Thread(target=listen, daemon=True).start()
    code = server.wait()
    if farewell == [b""]:
        shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # Not by way of sys.exit(): the thread may still wait for its word.
    os._exit(code if code >= 0 else 128 - code)
