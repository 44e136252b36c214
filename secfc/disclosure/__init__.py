"""What the server may see of the distances: a value, not a flag.

A policy has two halves.  The client's turns coded distances into what the server gets of them; the
server's turns that into steps of Lloyd's heuristic.  Between the server's question and the client's last
word a policy has `STRIDE` rounds of its own, with whomever it wants.  Roles know neither half, and a new
policy is a new file here.

What was tried and does not work is not offered: distances that are shuffled or scaled by secret integers
fall to greatest common divisors, to self-consistent scales and to linking by cluster sizes.
"""

from secfc.disclosure.assignments import AssignmentsOnly as AssignmentsOnly
from secfc.disclosure.distances import Distances as Distances
from secfc.disclosure.final import FinalLabelsOnly as FinalLabelsOnly
from secfc.disclosure.noise_at_server import NoiseAtServer as NoiseAtServer
from secfc.disclosure.noise_in_shares import NoiseInShares as NoiseInShares
from secfc.disclosure.policy import Answer as Answer
from secfc.disclosure.policy import Disclosure as Disclosure
from secfc.disclosure.policy import Exposure as Exposure
from secfc.disclosure.policy import Measured as Measured
