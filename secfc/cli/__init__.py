"""The command line: `secfc run` clusters files or a demonstration, `secfc psu` finds a union of IDs, and
`secfc warmup` compiles the kernels.

Results go to stdout, progress to stderr and only if that is a terminal.  Exit codes: 0 success, 1 a fault
of the protocol or a failed verification, 2 bad usage or bad input, 130 interrupted.  Bad input never
shows a traceback; a bug always does.

All parties run in this process: it is the place to try parameters and to cluster data that one site may
hold, not a deployment.  Nothing heavy is imported before a command runs, so that help is immediate.
"""

from secfc.cli.shell.program import main

__all__ = ["main"]
