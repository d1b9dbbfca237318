"""Ctrl-C, and the command on a terminal, by a pseudo terminal; called by cli.sh. Standard library only. Prints one "ok - NAME"
or "not ok - NAME" a case."""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

F = os.path.join(os.environ.get("BUILD", "build"), "foresight")
LONG = ["--ignore-eos", "--max-tokens", "4000", "--draft-depth", "0", "--isa", "ref"]  # else it ends before a key is there
folder = tempfile.TemporaryDirectory()
environment = dict(os.environ, XDG_STATE_HOME=folder.name, TERM="xterm", LC_ALL="C")
failures = 0


def report(name, good, detail=""):
    global failures
    failures += not good
    print(("ok" if good else "not ok") + " - cli: " + name)
    if not good:
        print("# " + repr(detail)[:2000])


def case(function):
    try:
        report(function.__doc__, *function())
    except NoTerminal as error:
        print("skip - cli: " + function.__doc__ + ": " + str(error))
    except Exception as error:  # a case that dies has failed; the others go on
        report(function.__doc__, False, error)


def read_until(fd, text, seconds=60):
    """What comes from fd until text is in it; b"" at its end."""
    got, end = b"", time.time() + seconds
    while text not in got and time.time() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                block = os.read(fd, 4096)
            except OSError:  # the other side of the terminal is closed
                break
            if not block:
                break
            got += block
    return got


class NoTerminal(Exception):
    """This machine gives no pseudo terminals, as a chroot without /dev/pts."""


class Terminal:
    """The command with a terminal as its input, output and errors."""

    def __init__(self, *args):
        try:
            self.pid, self.fd = pty.fork()
        except OSError as error:
            raise NoTerminal(error)
        if self.pid == 0:
            os.execve(F, [F, *args], environment)

    def type(self, keys, until, seconds=60):
        os.write(self.fd, keys)
        got = read_until(self.fd, until, seconds)
        assert until in got, (keys, got)
        return got

    def prompt(self):
        """Waits for the prompt."""
        assert b"> " in read_until(self.fd, b"> ")
        self.ready()

    def ready(self):
        """Waits until the line editor has the terminal: it shows the prompt a moment before."""
        end = time.time() + 60
        while termios.tcgetattr(self.fd)[3] & termios.ICANON and time.time() < end:
            time.sleep(0.02)

    def end(self):
        got = read_until(self.fd, b"\0never", 20)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), got


def interrupt(args, stdin=b""):
    process = subprocess.Popen([F, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    process.stdin.write(stdin)
    process.stdin.flush()
    first = read_until(process.stdout.fileno(), b" ")
    process.send_signal(signal.SIGINT)
    return process, first


def interrupted_run():
    """Ctrl-C ends run with a newline and 130"""
    process, first = interrupt(["run", *LONG, "Hello!"])
    out, err = process.communicate(timeout=60)
    return process.returncode == 130 and first and out.endswith(b"\n") and not err, (process.returncode, first, out[-50:], err)


def interrupted_chat():
    """Ctrl-C ends an answer of chat, not chat"""
    process, first = interrupt(["chat", *LONG], b"Hello!\n")
    time.sleep(0.2)
    process.stdin.write(b"/stats\n")
    out, err = process.communicate(timeout=60)
    good = process.returncode == 0 and first and out.endswith(b"\n") and b"interrupted" in err
    return good, (process.returncode, first, out[-50:], err)


def dialogue():
    """chat on a terminal: prompt, answer, /stats, Ctrl-D"""
    t = Terminal("chat")
    t.prompt()
    answer = t.type(b"Hello!\r", b"\n> ")
    stats = t.type(b"/stats\r", b"\n> ")
    t.ready()
    os.write(t.fd, b"\x04")
    code, _ = t.end()
    return code == 0 and len(answer) > len(b"Hello!\r\n\r\n> ") and b"decode" in stats, (code, answer, stats)


def editing():
    """chat on a terminal: a line is edited in UTF-8"""
    t = Terminal("chat")
    t.prompt()
    said = t.type("/hélp\x7f\x7f\x7felp\r".encode(), b"/reset")
    os.write(t.fd, b"\r/quit\r")
    code, _ = t.end()
    return code == 0 and b"unknown" not in said, said


def history():
    """chat on a terminal: history is kept, for this user alone"""
    name = os.path.join(folder.name, "foresight", "history")
    t = Terminal("chat")
    t.prompt()
    t.type(b"/ststs\r", b"did you mean")
    os.write(t.fd, b"/quit\r")
    first, _ = t.end()
    t = Terminal("chat")
    t.prompt()
    again = t.type(b"\x1b[A\x1b[A\r", b"did you mean")
    os.write(t.fd, b"/quit\r")
    code, _ = t.end()
    return first == code == 0 and b"/ststs" in again and os.stat(name).st_mode & 0o777 == 0o600, again


def stopping():
    """chat on a terminal: Ctrl-C stops an answer, clears a line, and the talk goes on"""
    t = Terminal("chat", *LONG)
    t.prompt()
    os.write(t.fd, b"Hello!\r")
    read_until(t.fd, b"!\r\n")
    time.sleep(0.3)
    t.type(b"\x03", b"\n> ")
    os.write(t.fd, b"half a line")
    read_until(t.fd, b"line")
    t.type(b"\x03", b"\n> ")
    stats = t.type(b"/stats\r", b"finish")
    os.write(t.fd, b"\r/quit\r")
    code, rest = t.end()
    return code == 0 and b"interrupted" in stats + rest, (code, stats, rest)


def run_on_terminal():
    """run on a terminal: the answer; Ctrl-C ends it"""
    t = Terminal("run", "Hello!")
    code, said = t.end()
    other = Terminal("run", *LONG, "Hello!")
    read_until(other.fd, b" ")
    os.write(other.fd, b"\x03")
    stopped, rest = other.end()
    return code == 0 and said.endswith(b"\r\n") and stopped == 130 and rest.endswith(b"\r\n"), (code, said, stopped, rest[-50:])


def thinking():
    """run on a terminal: reasoning is dim"""
    t = Terminal("run", "--think", "--max-tokens", "10", "Hello!")
    code, said = t.end()
    return code == 0 and said.startswith(b"\x1b[2m") and b"\x1b[0m" in said, said


def drafts():
    """drafts are in colours on a terminal, in brackets with --color=never, with reasoning dim in between"""
    args = ["run", "--draft-depth", "3", "--show-drafts", "--max-tokens", "12"]
    def said(*more, **variables):
        environment.update(variables)
        t = Terminal(*args, *more, "Hello!")
        code, text = t.end()
        for name in variables:
            del environment[name]
        assert code == 0, text
        return text
    colored, never, no, always = said(), said("--color", "never"), said(NO_COLOR="1"), said("--color=always", NO_COLOR="1")
    dim = said("--think")
    good = b"\x1b[32m" in colored and b"accepted (green)" in colored and b"[+" not in colored
    good = good and b"[+" in never and b"\x1b" not in never and no == never and always == colored
    return good and dim.startswith(b"\x1b[2m") and b"\x1b[0m\x1b[2m" in dim, (colored, never, no, always, dim)


def progress():
    """slow work shows its progress on a terminal alone, and Ctrl-C ends it"""
    slow = ["run", "--isa", "ref", "--threads", "1", "--chunk", "16", "The fox and the river. " * 500]
    t = Terminal(*slow)
    shown = read_until(t.fd, b" s")
    os.write(t.fd, b"\x03")
    code, rest = t.end()
    process = subprocess.Popen([F, *slow], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    good = code == process.returncode == 130 and b" s" in shown and rest.endswith(b"\x1b[K\r\n") and not err and out == b"\n"
    return good, (code, shown, rest[-100:], process.returncode, out, err)


def no_prompt():
    """run on a terminal without a prompt is wrong usage"""
    t = Terminal("run")
    code, said = t.end()
    return code == 2 and b"PROMPT is missing" in said, said


for function in (interrupted_run, interrupted_chat, dialogue, editing, history, stopping, run_on_terminal, thinking, drafts, progress,
                 no_prompt):
    case(function)
sys.exit(1 if failures else 0)
