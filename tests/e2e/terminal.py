# A program on a terminal of its own: what people see and type.
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time


class Terminal:
    """Starts the program as the leader of a session on a new terminal, as a shell would."""

    def __init__(self, *arguments, rows=24, columns=80, **environment):
        self.text = ""  # all that was shown
        self._seen = 0
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.execve(arguments[0], arguments, {**os.environ, "TERM": "xterm", **environment})
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.status = None

    def type(self, text):
        """Keys: Enter is \\r."""
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            self._read(0)  # nobody writes into a terminal whose echo nobody reads
            data = data[os.write(self._end, data[:512]) :]

    def paste(self, text):
        self.type("\x1b[200~" + text.replace("\n", "\r") + "\x1b[201~")

    def wait_for(self, pattern, seconds=120):
        """The first match behind the one before."""
        deadline = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.text[self._seen :])
            if found:
                self._seen += found.end()
                return found
            assert self._read(0.1) and time.monotonic() < deadline, (pattern, self.text[-2000:])

    def settings(self):
        return termios.tcgetattr(self._end)

    def wait(self, seconds=60):
        """The exit code; negative: the signal."""
        deadline = time.monotonic() + seconds
        while self.status is None:
            self._read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, self.text[-2000:]
        return self.status

    def wait_until_stopped(self, seconds=20):
        """By job control; it goes on with SIGCONT."""
        deadline = time.monotonic() + seconds
        while os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)[0] == 0:
            self._read(0.05)
            assert time.monotonic() < deadline, self.text[-2000:]

    def hang_up(self):
        os.close(self._end)
        self._end = None

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.status = -signal.SIGKILL
        if self._end is not None:
            os.close(self._end)

    def _read(self, seconds):
        """False when the program has left."""
        if self._end is None:
            time.sleep(seconds)
            return True
        while select.select([self._end], [], [], seconds)[0]:
            try:
                data = os.read(self._end, 1 << 16)
            except OSError:
                return False
            if not data:
                return False
            self.text += data.decode(errors="replace")
            seconds = 0
        return True
