"""What the server may see of the distances: a value, not a flag.

A policy has two halves.  The client's turns coded distances into what the server gets of them; the
server's turns that into steps of Lloyd's heuristic.  Between the server's question and the client's last
word a policy has `STRIDE` rounds of its own, with whomever it wants.  Roles know neither half, and a new
policy is a new file here.

What was tried and does not work is not offered: distances that are shuffled or scaled by secret integers
fall to greatest common divisors, to self-consistent scales and to linking by cluster sizes.
"""

from secfc.coded.policy import ClientPolicy as ClientPolicy
from secfc.coded.policy import Disclosure as Disclosure
from secfc.coded.policy import DistanceOracle as DistanceOracle
from secfc.coded.policy import Exposure as Exposure
from secfc.disclosure.assignments import AssignmentsOnly as AssignmentsOnly
from secfc.disclosure.decoded.distances import Distances as Distances
from secfc.disclosure.final_labels import FinalLabelsOnly as FinalLabelsOnly
from secfc.disclosure.noise.in_shares import NoiseInShares as NoiseInShares
from secfc.disclosure.noise.sums import NoisySums as NoisySums
from secfc.disclosure.own_labels import OwnLabels as OwnLabels
