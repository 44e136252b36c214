"""Processes that start at once: forked from one that has loaded and warmed everything, by command lines.

    python -m tests.secfc.deploy.nursery        reads JSON lines, and answers each with one

A child is a process of its own, killed by its number like any other; what all of them load is loaded once.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback


class Nursery:
    """The parent's end."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.secfc.deploy.nursery"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=environment, text=True,
        )  # fmt: skip

    def ask(self, **request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def start(self, words, log, folder, environment):
        return Child(self, self.ask(words=words, log=str(log), folder=str(folder), environment=environment))

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


class Child:
    """As much of `subprocess.Popen` as is needed."""

    def __init__(self, nursery, pid):
        self.nursery, self.pid, self.returncode = nursery, pid, None

    def poll(self):
        if self.returncode is None:
            self.returncode = self.nursery.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout=60.0):
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.02)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def main():
    import secfc
    import secfc.cli.deploy.hub
    import secfc.cli.deploy.join
    from secfc.tiny_runs import tiny_run

    for policy in (secfc.AssignmentsOnly(), secfc.OwnLabels(), secfc.Distances()):
        tiny_run(secfc.SecFC(2, 1, max_iter=2, disclosure=policy))

    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                be(**request)
        print(json.dumps(answer), flush=True)


def be(words, log, folder, environment):
    """Be a command, and end with its exit code."""
    code = 70
    try:
        os.environ.update(environment)
        # Where the suite runs in the background, its children would be deaf to it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, number in ((null, 0), (out, 1), (out, 2)):
            os.dup2(source, number)
        from secfc.cli.shell.program import main as command

        command(["deploy", *words], prog_name="secfc")
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
