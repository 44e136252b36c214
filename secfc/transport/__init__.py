"""How messages travel: in one process, over streams, sealed, and written down to resume.  Knows no
algorithm."""
