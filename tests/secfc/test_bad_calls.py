"""What bad calls of the Python interface are told: a value, a rule and a remedy, as an InputError.

Every line of the table is a call and how its error begins.  A wrong kind must not get as far as a
TypeError of some line below; calls that lack an argument, or have an unknown one, are refused by Python,
which names it.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import psu
import secfc
from secfc import Quantization, Release, Runtime, Threshold, privacy
from secfc.overlap.local import LocalKMeans

TABLE = r"""
fit(F, S(k=2, threshold=1)) -> the algorithm is a Federation: the first argument of fit is a va
fit(S, F) -> the algorithm is a class: the first argument of fit is a value s
fit(S(k=2, threshold=1), None) -> the federation is nothing: a Federation, or a list of arrays, on
fit(S(k=2, threshold=1), np.ones((9,2))) -> the federation is one ndarray of shape (9, 2): a list of them is
fit(S(k=2, threshold=1), pd.DataFrame(H[0])) -> the federation is one DataFrame of shape (20, 2): a list of
fit(S(k=2, threshold=1), {"a": H[0], "b": None}) -> client 'b' has no table of points: pass an array (m, d)
Federation.from_files(["a.csv"], dialect=";") -> dialect=';' is a str: a Dialect is needed. Pass secfc.Diale
secfc.Standardize(limit=0) -> limit=0: it must be positive and finite, as limit=10.0
secfc.ArrowRows(3) -> reopen is an int: a function is needed that gives the stream from its beginning. Pass
secfc.DaskRows(3) -> rows in Dask are an int: pass a dask.dataframe, a dask.array (m, d), or a list of
secfc.grid(sigma=-1) -> sigma=-1: a number of 0 or more is needed, as sigma=1.0
SecFCKMeans(2).fit(GAPS) -> Input X contains NaN.
fit(S(k=2, threshold=1), np.ones(9)) -> the federation is one ndarray of shape (9,): a list of them is
fit(S(k=2, threshold=1), "a.csv") -> the federation is given by names of files: points are needed. Us
fit(S(k=2, threshold=1), ["a.csv","b.csv"]) -> the federation is given by names of files: points are needed.
fit(S(k=2, threshold=1), 3) -> the federation is an int: a Federation, or a list of arrays, one
fit(S(k=2, threshold=1), []) -> the federation has no clients: at least one is needed. Add an ar
fit(S(k=2, threshold=1), {}) -> the federation has no clients: at least one is needed. Add name:
fit(S(k=2, threshold=1), [1,2,3]) -> client 'client-0' has no table of points: pass an array (m, d), on
fit(S(k=2, threshold=1), F.parties[0]) -> the federation is one client, 'client-0': a list of clients is
fit("secfc", F) -> the algorithm is a str: the first argument of fit is a value suc
fit(None, F) -> the algorithm is nothing: the first argument of fit is a value s
fit(4, F) -> the algorithm is an int: the first argument of fit is a value su
fit(S(k=2, threshold=1), F, seed=-1) -> seed=-1: seeds are not negative. Pass an integer of at least 0.
fit(S(k=2, threshold=1), F, bound="10") -> bound='10' is a str: a number is needed. Pass a float or an
fit(S(k=2, threshold=1), F, bound=-1) -> bound=-1: the public bound on the data must be positive and fini
fit(S(k=2, threshold=1), F, bound=0) -> bound=0: the public bound on the data must be positive and finit
fit(S(k=2, threshold=1), F, bound=[1,2]) -> bound=... is a list: a number is needed. Pass a float or an
fit(S(k=2, threshold=1), F, bound=float("nan")) -> bound=nan: the public bound on the data must be positive
fit(S(k=2, threshold=1), F, bound=1) -> client 'client-0', row 0, feature 0 (counted from 0) is outside
fit(S(k=2, threshold=1), F, coins=7) -> coins=7 is an int: a function is needed, or nothing. Leave it ou
fit(S(k=2, threshold=1), F, coins=lambda p: 7) -> coins=7 is an int: a source of secret coins a party is
fit(S(k=2, threshold=1), F, watch=3) -> watch=3 is an int: a function is needed, or nothing. Leave it ou
fit(S(k=2, threshold=1), F, faults=3) -> faults=3 is an int: a function is needed, or nothing. Leave it o
fit(S(k=2, threshold=1), F, sealed="yes") -> sealed='yes' is a str: True or False is needed. Pass one of the
fit(S(k=2, threshold=1), F, checkpoint=3) -> checkpoint=3 is an int: a directory, or None (no files), is
fit(S(k=2, threshold=1), F, scale_features="zscore") -> scale_features='zscore': it must be 'standard',
fit(S(k=2, threshold=1), F, scale_features=3) -> scale_features=3: it must be 'standard', 'robust'
fit(S(k=2, threshold=1), F, scale_features=True) -> scale_features=True: it must be 'standard', 'robust'
fit(S(k=2, threshold=1), F, missing="median") -> missing='median': it says what becomes of missing values,
fit(S(k=2, threshold=1), F, missing=None) -> missing=None: it says what becomes of missing values, 'refuse',
S(4, 1, init="bisectin") -> init='bisectin' is unknown: use one of the words 'random', 'random-
S(k="four", threshold=1) -> k='four' is no number of clusters: give one, as 4, or say among
S(k=None, threshold=1) -> k=None: a whole number of clusters is needed. Pass an integer, a
S(k=2.0, threshold=1) -> k=2.0 is a float: a whole number of clusters is needed. Pass an
S(k=2.5, threshold=1) -> k=2.5 is a float: a whole number of clusters is needed. Pass an
S(k=True, threshold=1) -> k=True is a bool: a whole number of clusters is needed. Pass an
S(k=[2,3], threshold=1) -> k=... is a list: a whole number of clusters is needed. Pass an i
S(k=(2,3), threshold=1) -> k=... is a tuple: a whole number of clusters is needed. Pass an
S(k=np.array(3), threshold=1) -> k=... is a ndarray: a whole number of clusters is needed. Pass a
fit(S(k=2.5, threshold=1), F) -> k=2.5 is a float: a whole number of clusters is needed. Pass an
fit(S(k=10**6, threshold=1), F) -> k=1000000 clusters of m=140 points: lower k or add points
Threshold("1") -> t='1' is a str: a whole number, or None (chosen for the number o
Threshold(1.5) -> t=1.5 is a float: a whole number, or None (chosen for the number
fit(S(k=2, threshold=-1), F) -> t=-1 is too small: it must be at least 0
fit(S(k=2, threshold=9), F) -> n=7 clients cannot decode a squared distance with ell=1, t=9: 2*
S(2, "1") -> threshold='1': a number of colluding clients, or a Threshold, is needed.
S(2, True) -> threshold=True: a number of colluding clients, or a Threshold, is needed.
S(2, 1, quantization=1000.0) -> quantization=1000.0 is a float: a Quantization is needed.
S(2, 1, runtime=2) -> runtime=2 is an int: a Runtime is needed. Pass a value such as
S(2, 1, release=True) -> release=True is a bool: a Release is needed. Pass a value such as
Quantization(centers="rough") -> centers='rough' is unknown: use "exact", the means as fractions, or
Threshold(True) -> t=True is a bool: a whole number, or None (chosen for the number
Threshold(1, "1") -> ell='1' is a str: a whole number is needed. Pass an integer, suc
fit(S(2, Threshold(1, 0)), F) -> ell=0 is too small: it must be at least 1
fit(S(2, Threshold(1, 99)), F) -> n=7 clients cannot decode a squared distance with ell=99, t=1:
Threshold(1, 1.0) -> ell=1.0 is a float: a whole number is needed. Pass an integer, s
Threshold(1, None) -> ell=None: a whole number is needed. Pass an integer, such as 3
S(2, 1, init=3) -> init=3 is unknown: use one of the words 'random', 'random-points',
S(2, 1, init=secfc.Bisecting) -> init=Bisecting is a class: build the value, Bisecting(...)
S(2, 1, init=np.zeros(5)) -> init=array([0., 0., 0., 0., 0.]) is unknown: use one of the words '
S(2, 1, init=[0,1]) -> init=[0, 1] is unknown: use one of the words 'random', 'random-poin
fit(S(2, 1, init=secfc.GivenLabels([0,1])), F) -> 2 starting labels for m=140 points: give one a point
fit(S(2, 1, init=secfc.GivenLabels("abc")), F) -> starting labels are a str: an array with an integer
fit(S(2, 1, init=secfc.GivenLabels(None)), F) -> starting labels are nothing: an array with an
fit(S(2, 1, n_init=0), F) -> n_init=0 is too small: it must be at least 1
fit(S(2, 1, n_init="auto"), F) -> n_init='auto' is a str: a whole number is needed. Pass an intege
fit(S(2, 1, n_init=1.5), F) -> n_init=1.5 is a float: a whole number is needed. Pass an integer
fit(S(2, 1, n_init=None), F) -> n_init=None: a whole number is needed. Pass an integer, such as
fit(S(2, 1, max_iter=0), F) -> max_iter=0 is too small: it must be at least 1
fit(S(2, 1, max_iter="300"), F) -> max_iter='300' is a str: a whole number is needed. Pass an
fit(S(2, 1, max_iter=None), F) -> max_iter=None: a whole number is needed. Pass an integer, such a
fit(S(2, 1, max_iter=2.5), F) -> max_iter=2.5 is a float: a whole number is needed. Pass an integ
Quantization(scale="fine") -> scale='fine' is a str: a number, or None (the finest that fits),
fit(S(2, 1, quantization=Quantization(scale=0)), F) -> scale=0 must be a positive finite number
fit(S(2, 1, quantization=Quantization(scale=-3)), F) -> scale=-3 must be a positive finite number
fit(S(2, 1, quantization=Quantization(scale=1e-9)), F) -> rounding loses much of the data: the spread of 2 o
fit(S(2, 1, quantization=Quantization(scale=1e30)), F) -> scale*bound = 3.2e+31 exceeds 2**52, where floats
Quantization(scale=[1]) -> scale=... is a list: a number, or None (the finest that fits), i
Quantization(basis=61) -> basis=61 is an int: a Basis, or None (chosen), is needed. Pass a
Quantization(basis="mersenne61") -> basis='mersenne61' is a str: a Basis, or None (chosen), is
Quantization(basis=(2**61-1,)) -> basis=... is a tuple: a Basis, or None (chosen), is needed. Pass
Quantization(rounding="up") -> rounding='up' must be 'nearest' or 'floor'
Quantization(rounding=None) -> rounding=None must be 'nearest' or 'floor'
Release(reveal_centers="yes") -> reveal_centers='yes' is a str: True, False or names of
Release(reveal_centers=1) -> reveal_centers=1 is an int: True, False or names of clients is
fit(S(2, 1, release=Release(reveal_centers=["client-0"])), F) -> 1 client cannot reveal the centers: ell+t
fit(S(2, 1, release=Release(reveal_centers=("nobody","x"))), F) -> nobody, x cannot reveal centers: not a cl
Release(reveal_centers=3) -> reveal_centers=3 is an int: True, False or names of clients is
Release(reveal_centers=None) -> reveal_centers=None: True, False or names of clients is
Quantization(largest="all") -> largest='all' is a str: a whole number, or None (all points), is
fit(S(2, 1, quantization=Quantization(largest=0)), F) -> largest=0 is too small: it must be at least 1
Quantization(largest=2.5) -> largest=2.5 is a float: a whole number, or None (all points), is
Runtime(threads=0) -> threads=0 is an int: a whole number of at least 1 is needed. Pas
Runtime(threads="2") -> threads='2' is a str: a whole number of at least 1 is needed. Pa
Runtime(threads=-1) -> threads=-1 is an int: a whole number of at least 1 is needed. Pa
Runtime(threads=None) -> threads=None: a whole number of at least 1 is needed. Pass an
S(2, 1, membership="hidden") -> membership='hidden' is unknown: use one of the words 'open', 'priva
S(2, 1, membership=secfc.Private) -> membership=Private is a class: build the value, Private(...)
S(2, 1, membership=None) -> membership=None is unknown: use one of the words 'open', 'private',
S(2, 1, disclosure="all") -> disclosure='all' is unknown: use one of the words 'assignments',
S(2, 1, disclosure="centers") -> disclosure='centers': use FederatedLloyd(k), which shows all
S(2, 1, disclosure=secfc.Distances) -> disclosure=Distances is a class: build the value,
fit(S(2, Threshold(1, corrected=1)), F) -> threshold=Threshold(corrected=1) with disclosure=Assi
Threshold(1, corrected="1") -> corrected='1' is a str: a whole number is needed.
fit(S(2, Threshold(1, corrected=-1), disclosure="distances"), F) -> corrected=-1 is negative: it count
Threshold(1, corrected=1.5) -> corrected=1.5 is a float: a whole number is needed.
Threshold(1, corrected=None) -> corrected=None: a whole number is needed. Pass an integer, such as 3
Threshold(1, corrected=True) -> corrected=True is a bool: a whole number is
fit(S(2, 1, release=Release(reveal_centers=True, smallest_center=0)), F) -> smallest_center=0 is too small:
Release(smallest_center="3") -> smallest_center='3' is a str: a whole number is needed. Pass
Release(smallest_center=None) -> smallest_center=None: a whole number is needed. Pass an
Release(smallest_center=1.5) -> smallest_center=1.5 is a float: a whole number is needed.
fit(S(2, 1, release=Release(predictions=-1)), F) -> predictions=-1 is too small: it must be at least 1
Release(predictions="many") -> predictions='many' is a str: a whole number, or None (ten
Release(predictions=1.5) -> predictions=1.5 is a float: a whole number, or None (ten times a
Runtime(network=3) -> network=3 is an int: a Network is needed. Pass a value such as
Runtime(network="lan") -> network='lan' is a str: a Network is needed. Pass a value such a
Runtime(network=None) -> network=None: a Network is needed. Pass a value such as
Quantization(coarse="ignore") -> coarse='ignore': it says what is done about coarse rounding, one
Quantization(coarse=None) -> coarse=None: it says what is done about coarse rounding, one of
secfc.Lloyd(k="x") -> k='x' is no number of clusters: give one, as 4, or say among whi
fit(secfc.Lloyd(k=2, max_iter="3"), F) -> max_iter='3' is a str: a whole number is needed. Pass an
fit(secfc.Lloyd(k=2, n_init=None), F) -> n_init=None: a whole number is needed. Pass an integer, such
Quantization(scale="x") -> scale='x' is a str: a number, or None (the finest that fits),
Quantization(largest="x") -> largest='x' is a str: a whole number, or None (all points),
Quantization(basis=3) -> basis=3 is an int: a Basis, or None (chosen), is needed. Pass a
fit(secfc.KFed(k=4, k_local="2"), F) -> k_local='2' is a str: a whole number is needed. Pass an
fit(secfc.KFed(k=4, k_local=9), F) -> k_local=9: it must lie in [1, k=4]
fit(secfc.KFed(k=4, k_local=1.5), F) -> k_local=1.5 is a float: a whole number is needed. Pass an
fit(secfc.KFed(k=4, k_local=2, seed="x"), F) -> seed='x' is a str: a whole number is needed. Pass an
fit(secfc.KFed(k=4, k_local=2, seed=-1), F) -> seed=-1: seeds are not negative. Pass an integer of at
fit(secfc.KFed(k=4, k_local=2, seed=None), F) -> seed=None: a whole number is needed. Pass an
fit(secfc.FedDPKMeans(k=2, epsilon=1, delta=1e-6), F) -> the server holds 0 points and bound=None: give
fit(secfc.FedDPKMeans(k=2, epsilon="1", delta=1e-6), P) -> epsilon='1' is a str: a number is needed.
fit(secfc.FedDPKMeans(k=2, epsilon=-1, delta=1e-6), P) -> epsilon=-1 must be positive: with less
fit(secfc.FedDPKMeans(k=2, epsilon=None, delta=1e-6), P) -> epsilon=None: a number is needed. Pass a
fit(secfc.FedDPKMeans(k=2, epsilon=1, delta="x"), P) -> delta='x' is a str: a number is needed. Pass
secfc.FedDPKMeans(k=2, epsilon=-1, delta=1e-6) -> epsilon=-1 must be positive: with less
secfc.FedDPKMeans(k=2, epsilon=0, delta=1e-6) -> epsilon=0 must be positive: with less
secfc.FedDPKMeans(k=2, epsilon=float("nan"), delta=1e-6) -> epsilon=nan must be positive: with less
secfc.FedDPKMeans(k=2, epsilon=float("inf"), delta=1e-6) -> epsilon=inf promises nothing: leave the noise
secfc.FedDPKMeans(k=2, epsilon=1, delta=2) -> delta=2 must be in [0, 1), as 1e-6: the
secfc.FedDPKMeans(k=2, epsilon=1, delta=float("nan")) -> delta=nan must be in [0, 1), as 1e-6: the
fit(secfc.FedDPKMeans(k=2, epsilon=1, delta=.5), P) -> delta=0.5: with at most that probability the promise
fit(DP(neighbors="client"), P) -> neighbors='client' is a str: a Neighbors is needed. Pass a value
fit(DP(neighbors=3), P) -> neighbors=3 is an int: a Neighbors is needed. Pass a value such
fit(DP(steps="1"), P) -> steps='1' is a str: a whole number of at least 0, or None (0 to 3
fit(DP(steps=1.5), P) -> steps=1.5 is a float: a whole number of at least 0, or None (0 to
fit(DP(start="FedDPInit"), P) -> start='FedDPInit' is a str: a start is needed. Pass a value such
fit(DP(variant="paper"), P) -> variant='paper' is a str: a Variant is needed. Pass a value such
fit(DP(shares=3), P) -> shares=3 is an int: a tuple of positive numbers, or None (the us
fit(DP(shares=(1,2,3,4,5)), P) -> shares=(1, 2, 3, 4, 5): 3 positive numbers are needed for this
fit(DP(shares="abc"), P) -> shares='abc' is a str: a tuple of positive numbers, or None (the
fit(DP(noise="server"), P) -> noise='server' is a str: a placement of noise is needed. Pass a
fit(DP(bound="x"), P) -> bound='x' is a str: a finite number above 0 or a Bound, or None (
fit(DP(bound=-1), P) -> bound=-1 is an int: a finite number above 0 or a Bound, or None (
fit(DP(rows_per_client="x"), P) -> rows_per_client='x' is a str: a whole number of at least 1, or No
fit(DP(committee="x"), P) -> committee='x' is a str: a whole number of at least 1, or None (at
fit(DP(committee=99), P) -> a committee of 99 among n=7 clients: at least 3 members are need
fit(DP(t="x"), P) -> t='x' is a str: a whole number of at least 0, or None (a third of
fit(DP(losses="x"), P) -> losses='x' is a str: a whole number of at least 0, or None (a qua
fit(secfc.FederatedLloyd(k="two"), F) -> k='two' is no number of clusters: give one, as 4, or say among
fit(secfc.FederatedLloyd(k="auto", start="max-min"), F) -> k=auto: FederatedLloyd cannot choose k, since
fit(secfc.FederatedLloyd(k=0), F) -> k=0 clusters of m=140 points: 1 <= k <= m is needed
fit(secfc.FederatedLloyd(k=None), F) -> k=None: a whole number of clusters is needed. Pass an integer, a
fit(secfc.FederatedLloyd(k=2, start=3), F) -> start=3 is an int: a start is needed. Pass a value such as
fit(secfc.FederatedLloyd(k=2, max_iter="x"), F) -> max_iter='x' is a str: a whole number is needed. Pass
fit(secfc.FederatedLloyd(k=2, max_iter=0), F) -> max_iter=0 is too small: it must be at least 1
fit(secfc.FederatedLloyd(k=2, scale="x"), F) -> scale='x' is a str: a number, or None (the finest that
fit(secfc.FederatedLloyd(k=2, committee="x"), F) -> committee='x' is a str: a whole number, or None (at
fit(secfc.FederatedLloyd(k=2, t="x"), F) -> t='x' is a str: a whole number, or None (a third of the
fit(secfc.FederatedLloyd(k=2, losses="x"), F) -> losses='x' is a str: a whole number, or None (as many
fit(secfc.CommonFeatures(3), F) -> algorithm=3 is an int: an algorithm is needed. Pass a value such
secfc.Federation(3) -> the clients are an int: a list of Party is needed. Use Federatio
secfc.Federation([]) -> the federation has no clients: at least one is needed. Add a Par
secfc.Federation(H) -> a client is a ndarray: a Party is needed. Use Party(name, points
secfc.Federation(None) -> the clients are nothing: a list of Party is needed. Use Federati
secfc.Federation(F.parties[0]) -> the clients are a Party: a list of Party is needed. Use
secfc.Federation("abc") -> a client is a str: a Party is needed. Use Party(name, points), o
secfc.Federation(F.parties, feature_names="abc") -> the federation has 'abc' for feature names: a
secfc.Federation(F.parties, feature_names=3) -> the federation has 3 for feature names: a list of 2
secfc.Federation(F.parties, server_points=3) -> the server has points of type int: an array is
secfc.Federation(F.parties, server_points="x") -> the server has points of type str: an array is
secfc.Federation(F.parties, server_points=[[1,2]]) -> the server has points of type list: an array is
Federation.from_arrays(None) -> the federation is nothing: a Federation, or a list of arrays, on
Federation.from_arrays(3) -> the federation is an int: a Federation, or a list of arrays, one
Federation.from_arrays("abc") -> the federation is given by names of files: points are needed. Us
Federation.from_arrays([1,2,3]) -> client 'client-0' has no table of points: pass an array (m, d), on
Federation.from_arrays([None]) -> client 'client-0' has no table of points: pass an array (m, d), on
Federation.from_arrays([[["a","b"]]]) -> client 'client-0' has points of dtype <U1: integers or
Federation.from_arrays([[[1,2],[3]]]) -> a client's points are not a table: every row needs the same
Federation.from_arrays(H, names="abcdefg") -> names has 7 entries for 7 clients: one a client is
Federation.from_arrays(H, names=3) -> names=3 is an int: one entry a client is needed. Pass a list of
Federation.from_arrays(H, names=["a"]) -> names has 1 entries for 7 clients: one a client is needed.
Federation.from_arrays(H, names=[1,2,3,4,5,6,7]) -> a client's name is 1: a string is needed. Pass
Federation.from_arrays(H, ids=3) -> ids=3 is an int: one entry a client is needed. Pass a list of 7.
Federation.from_arrays(H, ids=[1]*7) -> client 'client-0' has one int for ids: pass a sequence of ids.
Federation.from_arrays(H, truth=3) -> truth=3 is an int: one entry a client is needed. Pass a list of
Federation.from_arrays(H, truth=["x"]*7) -> client 'client-0' has truth of shape () for 20 points:
Federation.from_arrays(H, server_points=3) -> the server has no table of points: pass an array (m, d), one
Federation.from_arrays(H, features=3) -> features=3 is an int: one entry a client is needed. Pass a
Federation.from_arrays(H, features=["abc"]*7) -> client 'client-0' has 3 feature names (3 of them
Federation.from_arrays(H, union=True) -> table 0 (counted from 0) has no column names: columns of a
Federation.from_arrays([h*np.nan for h in H]) -> client 'client-0', row 0, feature 0: the value is
Federation.from_arrays([h.astype(complex) for h in H]) -> client 'client-0' has points of dtype
Federation.from_arrays([h.astype(object) for h in H]) -> client 'client-0' has points of dtype
Federation.from_labelled(H[0], 3, n=2) -> the data set has truth of shape () for 20 points: one label
Federation.from_labelled(H[0], None, n=2) -> the data set has truth of shape () for 20 points: one
Federation.from_labelled(H[0], T, n=0) -> n=0: at least 1 is needed. Raise n.
Federation.from_labelled(H[0], T, n=999) -> m=20 points cannot be dealt out to n=999 clients: every
Federation.from_files(3) -> paths=3 is an int: names of files are needed. Pass a path, or a
Federation.from_files([]) -> no files are given: at least one is needed. Pass a path.
Federation.from_files(None) -> paths=None is nothing: names of files are needed. Pass a path, o
secfc.Party("a", None) -> client 'a' has points of type NoneType: an array is needed. Pass
secfc.Party("a", [[1,2]]) -> client 'a' has points of type list: an array is needed. Pass
secfc.Party("a", 3) -> client 'a' has points of type int: an array is needed. Pass
secfc.Party(3, H[0]) -> a client's name is 3: a string is needed. Pass str(name).
secfc.Party("", H[0]) -> a client's name is '': it must not be empty and 'server' is take
secfc.Party("server", H[0]) -> a client's name is 'server': it must not be empty and 'server' i
secfc.Party("a", H[0], truth=3) -> client 'a' has truth of shape () for 20 points: one label a poin
secfc.Party("a", H[0], truth=[1]) -> client 'a' has truth of shape (1,) for 20 points: one label a
secfc.Party("a", H[0], ids=3) -> client 'a' has one int for ids: pass a sequence of ids.
secfc.Party("a", H[0], features="ab") -> client 'a' has 'ab' for feature names: a list of 2 distinct
secfc.Party("a", H[0], features=3) -> client 'a' has 3 for feature names: a list of 2 distinct
secfc.Elbow("x") -> most='x' is a str: a whole number, or None (the root of the numb
secfc.Elbow(0) -> most=0 is below least=1: raise most to 3
secfc.Elbow(4, 5) -> most=4 is below least=5: raise most to 7
secfc.Elbow(2.5) -> most=2.5 is a float: a whole number, or None (the root of the nu
secfc.Elbow(3, 5) -> most=3 is below least=5: exchange them
secfc.Elbow(3, "a") -> least='a' is a str: a whole number is needed. Pass an integer, s
secfc.OwnLabels(sizes="x") -> sizes='x' of clusters are "open" to all, or "hidden": name one
fit(S(2, 1, disclosure=secfc.OwnLabels(dealer="nobody")), F) -> dealer='nobody' takes no part: name
fit(S(2, 1, disclosure=secfc.AssignmentsOnly(dealer=3)), F) -> dealer=3 takes no part: name 'server'
secfc.Distances(3) -> blind=3 is an int: True or False is needed. Pass one of the two
secfc.NoiseInShares(1, 2) -> budget=1 is an int: a Budget is needed. Pass a value such as
fit(S(2, 1, disclosure=secfc.NoiseInShares(1,2)), F) -> budget=1 is an int: a Budget is needed. Pass
secfc.NoisyStandardize(3) -> ranges have an int where (least, most) of a feature is due: pass
secfc.Range(3) -> ranges have an int where (least, most) of a feature is due: pass
fit(secfc.Scaled(S(k=2, threshold=1), "x"), F) -> scale_features='x': it must be 'standard', 'robust'
fit(secfc.Scaled(3, "standard"), F) -> algorithm=3 is an int: an algorithm is needed. Pass a value
secfc.Private(3) -> mode=3 is an int: a mode of psu, or None (a threshold of SecFC's
fit(S(2, 1, membership=secfc.Private("x")), F) -> mode='x' is a str: a mode of psu, or None (a
R.predict(H[0]) -> the federation is one ndarray of shape (20, 2): a list of them i
R.predict(None) -> the federation is nothing: a Federation, or a list of arrays, on
R.predict(3) -> the federation is an int: a Federation, or a list of arrays, one
R.predict("x") -> the federation is given by names of files: points are needed. Us
R.predict(F, coins=3) -> coins=3 is an int: a function of a party's name is needed. Leave
F.split(3) -> an array of shape () cannot be split over clients: its first axi
F.split(None) -> an array of shape () cannot be split over clients: its first axi
F.split([1,2]) -> an array of shape (2,) cannot be split over clients: its first a
F.ordered(3) -> features=3 is an int: pass a list of names.
F.ordered(["a"]) -> the features are none, and 'a' are needed: features are matched
S(2, 1, disclosure=secfc.AssignmentsOnly(consent="no")) -> consent='no' is a str: True or False is needed. P
secfc.FinalLabelsOnly(stop="no") -> stop='no' is a str: True or False is needed. Pass one of the two
secfc.OwnLabels(consent=1) -> consent=1 is an int: True or False is needed. Pass one of the tw
secfc.Overlap2(k=2, boxes="yes") -> boxes='yes' is a str: True or False is needed. Pass one of the t
secfc.Overlap2(k=2, local=3) -> local=3 is an int: a way to cluster a client is needed. Pass a v
secfc.Automatic(paper="yes") -> paper='yes' is a str: True or False is needed. Pass one of the t
secfc.Constrained(local="kmeans") -> local='kmeans' is a str: a way to cluster a client is needed. Pa
secfc.MaxMin(max_iter="x") -> max_iter='x' is a str: a whole number of at least 0 is needed. P
secfc.CenterSeparation("bisecting") -> base='bisecting' is a str: a start is needed. Pass a value such
secfc.Standardize(keep="age") -> keep='age' is a str: names or numbers of columns, in a list, is
secfc.NoisyStandardize({"a": (0, 1)}, share="half") -> share='half' is a str: a number is needed. Pass a flo
secfc.Dialect(header="yes") -> header="yes": True or False is needed. Use header=True.
secfc.Dialect(absent="?") -> absent="?": words are needed, in a list. Use absent=('?', 'crp=-
secfc.Dialect(skip=2.5) -> skip=2.5: numbers of lines are needed, counted from 1, as 1-3,36
secfc.Dialect(visible_only="no") -> visible_only="no": True or False is needed. Use visible_only=Tru
fit(S(2, 1), F, keep_bodies="yes") -> keep_bodies='yes' is a str: True or False is needed. Pass one of
fit(S(2, 1), F, checkpoint="/proc/nothing") -> checkpoint="/proc/nothing": No such file or directory: a dire
fit(S(2, 1), F, checkpoint="/dev/null") -> checkpoint="/dev/null": File exists: a directory is needed in wh
fit(S(2, Threshold(1, deviating=-1)), F) -> deviating=-1 is negative: use 0 for none, or leave deviating out
fit(S(2, 1, init=secfc.GivenLabels([-1] * 140)), F) -> starting labels are all -1: no point is in a cluster.
fit(S(2, 1, release=Release(reveal_centers=("nobody",))), F) -> nobody cannot reveal centers: not a client.
secfc.Bisecting(spare=-1) -> spare=-1 must be in [0, 1], a part of k to merge: give 0.25
secfc.DBSCAN(0, 3) -> eps=0: a distance above 0 is needed, in units of the data. Pass
secfc.DBSCAN(1.0, 0) -> min_samples=0: a point is near itself. Pass at least 1
secfc.DBSCAN(float("nan"), 3) -> eps=nan: a distance above 0 is needed, in units of the data. Pas
secfc.Precomputed("dbscan", consent=True) -> clusterer='dbscan' has no fit_predict: a clusterer is needed. P
secfc.Precomputed(None) -> consent=False: the server would be given the distance of every t
fit(S(3, 1, release=Release(dendrogram=True)), F).cut(99) -> cut=99 of 3 clusters with points: from 1 to 3 a
R.cut(3) -> no dendrogram was opened: fit SecFC(k, release=Release(dendrogra
R.predict(Federation.from_arrays(H[:3])) -> prediction needs the 7 clients of the fit and d=2 features, got
privacy.Bound.given("x") -> value='x' is a str: a number is needed. Pass a float or an integ
privacy.Budget(1, 1) -> delta=1 must be in [0, 1), as 1e-6: the probability that the cla
privacy.Neighbors(unit="persons") -> unit='persons' must be one of 'data point', 'client', 'person',
privacy.Neighbors(unit="person", rows=0) -> rows=0 of one person: a number from 1 to 999, and 1 unless unit=
secfc.NoisySums(privacy.Budget(1, 1e-6), 3) -> radius=3 is an int: a Bound is needed. Pass a value such as B
secfc.FederatedLloyd(2, floor="x") -> floor='x' is a str: a whole number is needed. Pass an integer, s
fit(secfc.FederatedLloyd(2, floor=10**6), F) -> floor=1000000: 2 clusters, beside the rows of any t=2 of the
secfc.Overlap1(k=2, affinity="x") -> affinity='x': use one of 'euclidean', 'cosine'
secfc.Joined("x") -> keep='x' is none of 'intersection', 'union'
fit(S(2, 1, membership=secfc.Joined()), F) -> membership="joined": all clients have the same columns, and ot
"""
CALLS = [tuple(line.split(" -> ", 1)) for line in TABLE.strip().splitlines()]

# Calls of the table after what they are told is done.
MENDED = """
S(2, 1, disclosure=secfc.AssignmentsOnly(consent=True))
secfc.FinalLabelsOnly(stop=False)
secfc.OwnLabels(consent=True)
secfc.Overlap2(k=2, boxes=True)
secfc.Overlap2(k=2, local=LocalKMeans())
secfc.Automatic(paper=True)
secfc.Constrained(local=LocalKMeans())
secfc.MaxMin(max_iter=0)
secfc.CenterSeparation(secfc.RandomLabels())
secfc.Standardize(keep=["age", 3])
secfc.NoisyStandardize({"a": (0, 1)}, share=0.5)
secfc.Dialect(header=True)
secfc.Dialect(absent=('?', 'crp=-9'))
secfc.Dialect(skip="1-3")
secfc.Dialect(visible_only=True)
fit(S(2, 1), F, keep_bodies=True)
fit(S(2, Threshold(1, deviating=0)), F)
fit(S(2, 1, init=secfc.GivenLabels([0, 1] * 70)), F)
fit(S(2, 1, release=Release(reveal_centers=("client-0", "client-1"))), F)
secfc.Bisecting(spare=0.25)
secfc.DBSCAN(0.5, 3)
secfc.DBSCAN(1.0, 1)
secfc.DBSCAN(0.5, 3)
secfc.Precomputed(None, consent=True)
fit(S(3, 1, release=Release(dendrogram=True)), F).cut(3)
R.predict(F)
privacy.Bound.given(2.5)
privacy.Budget(1, 1e-6)
privacy.Neighbors(unit="person")
privacy.Neighbors(unit="person", rows=1)
secfc.NoisySums(privacy.Budget(1, 1e-6), privacy.Bound.given(8.0))
secfc.FederatedLloyd(2, floor=3)
fit(secfc.FederatedLloyd(2, floor=3), F)
secfc.Overlap1(k=2, affinity="cosine")
secfc.Joined("union")
fit(S(2, 1, membership=secfc.Private()), F)
secfc.Elbow(3)
secfc.Elbow(7, 5)
secfc.Standardize(limit=10.0)
SecFCKMeans(2, missing="mean", bound=64).fit(GAPS)
SecFCKMeans(2, missing="drop").fit(GAPS)
""".strip().splitlines()

# Mistakes that Python itself would tell of by another name.
NAMES = [
    ('fit(S(2, 1), F, seed="0")', TypeError, "seed='0' is a str: pass an integer"),
    ("secfc.Overlap2(k='x')", TypeError, "k='x' is a str: pass an integer"),
    ("R.labels_", AttributeError, "it is called 'flat' here"),
    ("R.centers_", AttributeError, "it is called 'centers' here"),
    ("secfc.Budget", AttributeError, "from secfc.privacy import Budget"),
    ("R.cluster_centers_", AttributeError, "it is called 'centers' here"),
    ("fit(S(2, 1), F, seed=np.random.default_rng(0))", TypeError, r"seed=\.\.\. is a Generator: pass an int"),
    ('psu.union([["a"], ["b"], ["c"]], t="1")', TypeError, "t='1' is no whole number: pass an integer"),
    ("R.transform", AttributeError, r"dir\(\) lists others"),
    ("secfc.KMeans", AttributeError, "did you mean SecFC"),
    (
        'SecFCKMeans(2).fit(H[0]).save("nowhere/m.npz")',
        FileNotFoundError,
        "directory .*nowhere does not exist",
    ),
    ("secfc.SecFc", AttributeError, "did you mean SecFC?"),
    ("secfc.Federatoin", AttributeError, "did you mean Federation?"),
    ("secfc.zzz", AttributeError, r"dir\(secfc\) lists what there is"),
]


@pytest.fixture(scope="module")
def names():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(rng.integers(0, 4, (20, 1)) * 5, 1, (20, 2)) for _ in range(7)]
    federation = secfc.Federation.from_arrays(arrays)
    gaps = np.where(np.eye(30, 2), np.nan, rng.normal(size=(30, 2)))
    SecFCKMeans = pytest.importorskip("secfc.estimators").SecFCKMeans

    def private(**values):
        return secfc.FedDPKMeans(**{"k": 2, "epsilon": 1, "delta": 1e-6, **values})

    return {
        "np": np, "pd": pytest.importorskip("pandas"), "psu": psu,
        "secfc": secfc, "SecFCKMeans": SecFCKMeans, "GAPS": gaps,
        "fit": secfc.fit, "S": secfc.SecFC, "DP": private,
        "Federation": secfc.Federation, "T": np.zeros(20, int), "H": arrays, "F": federation,
        "P": secfc.Federation.from_arrays(arrays, server_points=arrays[0]),
        "R": secfc.fit(secfc.SecFC(2, 1), federation), "privacy": privacy, "LocalKMeans": LocalKMeans,
        **{kind.__name__: kind for kind in (Quantization, Release, Runtime, Threshold)},
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "said"), CALLS, ids=[call for call, _ in CALLS])
def test_a_bad_call_is_told_value_rule_and_remedy(call, said, names):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - what it says is compared
        eval(call, names)
    assert str(error.value).startswith(said)
    assert "Traceback" not in str(error.value)
    assert "0x" not in str(error.value)  # no address of an object


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", MENDED)
def test_what_a_bad_call_is_told_works(call, names):
    eval(call, names)


@pytest.mark.parametrize("kind", [kind for name in secfc._HOME if is_dataclass(kind := getattr(secfc, name))])
def test_a_word_is_no_switch(kind):
    """`consent="no"` would be true: every field that is True or False takes nothing else."""
    needed = {"k": 2, "epsilon": 1.0, "delta": 1e-6, "eps": 1.0, "min_samples": 3, "clusterer": None}
    needed |= {"centers": (0.0,), "units": (1.0,), "limit": 1.0}
    given = {one.name: needed[one.name] for one in fields(kind) if one.name in needed}
    for one in fields(kind) if isinstance(kind, type) else ():
        if one.init and one.type == "bool" and one.name not in ("converged", "told"):
            with pytest.raises(ValueError, match=f"{one.name}=.no. is a str: True or False|True or False is"):
                kind(**{**given, one.name: "no"})


@pytest.mark.parametrize(("call", "kind", "said"), NAMES)
def test_a_name_that_is_none_is_told_the_one_that_is_meant(call, kind, said, names):
    with pytest.raises(kind, match=said):
        eval(call, names)


def test_the_table_has_as_many_calls_as_people_tried():
    assert len(CALLS) >= 270
    assert len({call for call, _ in CALLS}) == len(CALLS)
