"""What the shell says to lines that cannot be: one table, a line and pieces of its answer each.

Every answer is an error message and nothing else: no traceback, nothing on stdout, no file written, no cell
of a file shown, and no option offered that the command does not have.  A site that refuses a run puts that on
its record, a line without a cell.  More such lines, with what they are
about: tests/secfc/cli/test_run.py, test_cli_psu.py, test_cli_membership.py, test_cli_preparing.py.
"""

import json
import os
import re
import stat
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli import main

CELL = "sesame"  # stands in files, and must not in answers

# Of a run that a site refuses, this is on its record: one line, in files beside the site file.
RECORDED = {"deploy join site.toml"}
RECORD = {"audit.jsonl", ".audit.jsonl.lock"}

# Lines of a shell, without `secfc`; FILES could be clustered, K0 to K3 are keys, RUN is a whole run file.
FILES = "an.csv bn.csv cn.csv"
RUN = "--client a=K0 --client b=K1 --client c=K2 --server K3 --hub wss://hub --features x,y -k 2"
TABLE = """
rnu -> no command 'rnu' here: use run
attack nope -> no command 'nope' here: use geometry, membership
deploy jion x.toml -> no command 'jion' here: use join
warmup now -> unexpected extra argument

run FILES -> -k is missing: say how many clusters | -k 4
run FILES -k -> requires an argument
run -k 0 -> 0 is not in the range x>=1
run -k 2.5 -> '2.5' is no number of clusters | "2..12"
run -k 3..2 -> most=2 is below least=3: raise most to 5
run -k 5..2 -> most=2 is below least=5: exchange them, or raise most to 7
run FILES -k 2 --seed x -> 'x' is no whole number
run FILES -k 2 --bound x -> 'x' is no number
run FILES -k 2 --nope -> No such option '--nope'
run FILES -k 2 --foce -> No such option '--foce' | '--force'
run FILES -k 2 --max_iter 9 -> No such option '--max_iter': it is called --max-iter here
run FILES --n_clusters 2 -> it is called -k here
run FILES -k 2 -o l.csv -> it is called --labels here
run FILES -k 2 --n-clients 3 -> clients are FILEs, one each, or names in a column, --client-column
plan --n-clients 3 -> it is called -n here
run FILES -k 2 --scaler robust -> it is called --standardize here
run FILES -k 2 --standardize minmax -> 'minmax' is no file, and not one of 'standard', 'robust', 'norm'
run FILES -k 2 --algorithm kmeans -> take secfc, exact k-means over shares, or lloyd
run FILES -k 2..6 --plot p.xyz -> says the format of a picture, one of .png | Name p.xyz.png
run FILES -k 2..6 --plot p -> Name p.png
attack geometry FILES -k 2 --plot p.xyz -> Name p.xyz.png
help run -> use main run --help
fit FILES -> use run
run FILES -k 2 --quiet --verbose -> exclude each other: leave one out
run --columns x -> --columns needs a FILE that it describes
run an.csv -k 2 -> n=1 client cannot hide | = 3 are needed | Add clients | --client-column | --algorithm lloyd
run an.csv an.csv bn.csv -k 2 -> an.csv is given twice | Drop one
run nowhere.csv bn.csv -k 2 -> nowhere.csv does not exist. Check the path
run dir bn.csv cn.csv -k 2 -> dir is a directory | Pass the files in it
run notes.doc bn.csv -k 2 -> has the extension '.doc' | .xlsx | Convert or rename
run broken.parquet bn.csv -k 2 -> not a readable Parquet file. Write it again
run broken.xlsx bn.csv -k 2 -> not a readable .xlsx file. Save it again
run broken.npz bn.csv -k 2 -> not a readable .npz file | Save plain arrays
run broken.npy bn.csv -k 2 -> not a readable .npy file | Save plain arrays
run broken.csv.gz bn.csv -k 2 -> no whole archive. Compress it again
run cube.npy bn.csv -k 2 -> shape (2, 2, 2): two axes are needed | reshape
run str.npy str.npy -k 2 -> is given twice
run text.csv bn.csv -k 2 -> text.csv, line 3, column 'x' | is not a number | --exclude | --categorical
run hole.csv bn.csv -k 2 -> hole.csv, line 3, column 'x' | is empty | --missing mean | --missing drop
run date.csv bn.csv -k 2 -> line 3, column 'y' | a date or a time | years of age | --exclude
run ragged.csv bn.csv -k 2 -> line 3: 1 cell, and the first row has 2 | correct the row
run inf.csv bn.csv cn.csv -k 2 -> row 1, feature 'x' | finite | drop the row
run empty.csv bn.csv -k 2 -> is empty: a client needs at least one point. Leave it out
run head.csv bn.csv -k 2 -> a header and no data | Leave it out
run twice.csv bn.csv -k 2 -> several columns 'x' | Rename one
run bare.csv bn.csv -k 2 -> no column names and other files have | Add a header row
run quote.csv bn.csv -k 2 -> line 2: not valid CSV | Check the quotes
run thousand.csv bn.csv -k 2 -> before three digits | --decimal ,
run latin.csv bn.csv -k 2 -> is not UTF-8 | --encoding
run other.csv bn.csv -k 2 -> missing are 'z', additional are 'y' | --columns | `secfc overlap`
run a.csv b.csv -k 2 --id-column nope -> no column 'nope': its columns are 'id', 'site', 'x', 'y'
run a.csv b.csv -k 2 --columns x,,y -> 'x,,y' is not a list of column names: write --columns age,weight
run a.csv b.csv -k 2 --columns x,x -> 'x', 'x' | Name each column once
run a.csv b.csv c.csv -k 2 --client-column site -> line 2 and 11 more, column 'id' | --id-column
run FILES -k 2 -t 9 -> n=3 clients | t=9 | 19 are needed. Lower ell or t, or add clients
run FILES -k 2 --ell 3 -> ell=3 | Add clients | use --ell 1
run FILES -k 2 --init nope -> 'nope' is not one of | 'bisecting'
run FILES -k 2 --init k-means++ -> opens to the server the distances | allow it (--consent)
run FILES -k 2 --disclosure distances --sizes hidden -> --sizes has no meaning | leave it out
run FILES -k 2 --centers round -> 'round' is not one of | 'rounded'
run FILES -k 2 --disclosure distances --centers rounded -> --centers has no meaning | leave it out
run FILES -k 2 --disclosure final-labels --centers rounded -> tables that somebody deals | --centers exact
run FILES -k 2 --dealer none --centers rounded -> tables that somebody deals | --centers exact
run FILES -k 2 --disclosure final-labels --init bisecting -> this start opens others | Use --init random
run FILES -k 2 --largest 1 -> --largest 1 with --init bisecting | Leave --largest out, or use --init random
run FILES -k 2 --scale nan -> nan is not a positive finite number
run FILES -k 2 --scale 1e30 -> exceeds 2**52 | lower the scale
run FILES -k 2 --bound 1 -> outside the public bound [-1, 1]: raise the bound
run FILES -k 2 --field mersenne61 -> no kernel | Leave --field out | --disclosure distances
run FILES -k 2 --corrected 2 -> does not check what clients send | --disclosure distances or --corrected 0
run FILES -k 2 --no-merge -> --no-merge has no meaning | --membership private
run FILES -k 2 --smallest-center 5 -> add --reveal-centers, or leave it out
run FILES -k 2 --server-file an.csv -> No such option '--server-file': it is for another command, `secfc dp`
run FILES -k 2 --epsilon 1 -> --epsilon needs --radius | without looking at the data
run FILES -k 2 --delta 0.1 -> --delta needs --epsilon
run FILES -k 2 --epsilon 1 --radius 20 --delta 2 -> 2.0 is not in the range 0<x<1
run FILES -k 2 --epsilon 1 --radius 20 --disclosure own-labels -> leave out --disclosure own-labels
run FILES -k 2 --evaluate -> --evaluate has no meaning without --epsilon
run FILES -k 2 --algorithm k-fed --disclosure distances -> --disclosure has no meaning | leave it out
run FILES -k 2 --algorithm feddp -> 'feddp' is for another command: use `secfc dp`
run FILES -k 2 --algorithm federated-lloyd --epsilon 1 -> adds no noise. For a budget use | `secfc dp`
run FILES -k 2 --disclosure noisy-sums --epsilon 1 --radius 5 -> release what feddp does | Use `secfc dp`, or
plan -k 2 --disclosure noisy-sums --epsilon 1 --radius 5 -> what feddp does | Use --algorithm feddp
dp FILES -k 2 --epsilon 1 --radius 5 --protect client --labels-epsilon 2 -> Leave --labels-epsilon out
run FILES -k 2 --start max-min -> another command, `secfc overlap`
run FILES -k 2 --set split=columns -> options stand for themselves here, as --split columns
dp FILES -k 2 --epsilon 1 -> points that the server holds | --server-file | --radius
dp FILES -k 2 --radius 9 -> needs a budget | --epsilon
run FILES -k 2 --algorithm federated-lloyd --membership private -> --membership has no meaning
run FILES -k 2 --features union -> 'union' is for another command: use `secfc overlap`
overlap FILES -k 2 --membership private -> another command, `secfc run`
overlap FILES -k 2 --columns q -> none of the columns asked for, 'q'
run FILES -k 2 --standardize --to-range -> two scales: choose one
run FILES -k 2 --standardize --bound 3 -> --bound has no meaning with --standardize | leave it out
run FILES -k 2 --ranges x -> 'x' is no range: write --ranges age=0:120
run FILES -k 2 --ranges x=1:2 -> (x, y): give all of them
run FILES -k 2 --standardize robust --epsilon 3 --radius 2 -> which no budget covers
run FILES -k 2 --limit 3 -> --limit | needs --standardize
run FILES -k 2 --outside clip -> needs --standardize, --to-range or --ranges
run FILES -k 2 --missing mean -> no bound is read off rows with gaps. Give one (--bound), or
run FILES -k 2 --plot p.png -> add -k auto or --linkage, or leave it out
dp FILES -k 2 --plot p.png -> add -k auto, or leave it out
dp FILES -k 2 --algorithm feddp -> it is for another command, `secfc run`, so leave it out here
run FILES -k 2 --labels old.csv -> old.csv exists already | --labels | --force
run FILES -k 2 --labels nowhere/l.csv -> does not exist. Create it first
run FILES -k 2 --labels dir -> --labels dir is a directory: name a file in it
run FILES -k 2 --labels out.xlsx -> --labels out.xlsx: what is written is CSV | Name out.csv
run FILES -k 2 --labels an.csv --force -> one of the input files. Name another
run FILES -k 2 --labels - --json -> both want stdout: name a file, as --labels labels.csv
run FILES -k 2 --report - -> name a file
run FILES -k 2 --report r.txt -> ends in .json or in .html
run FILES -k 2 --report r.json --labels r.json -> both r.json: give them different names
run FILES -k 2 --readers holders -> add --report page.html, or leave it out
run FILES -k 2 --model nowhere/m.npz -> does not exist. Create it first
run FILES -k 2 --processes --checkpoint d -> leave it out, or leave out --processes
run FILES -k 2 --delimiter ab -> --delimiter ab: one character is needed | Use --delimiter ';'
run FILES -k 2 --decimal x -> 'x' is not one of '.', ','
run FILES -k 2 --encoding klingon -> --encoding klingon: a name such as | Use --encoding cp1252

plan -n 6 -t 4 -> n=6 clients | 9 are needed | Nearest possible: | t=2 (not 4) | n=9 (not 6)
plan -n 10 -t 4 --losses 3 -> 9 of 10 must answer | losses=1 (not 3) | n=12 (not 10)
plan -n 10 -m 4 -> every client needs one | m=10 (not 4)
plan --algorithm feddp -> needs a budget | --epsilon
plan --algorithm k-fed --dealer none -> --dealer has no meaning for --algorithm k-fed
plan an.csv -> an.csv is no run file | secfc deploy init | -n, -m, -d, -k
plan nowhere.toml -> nowhere.toml
plan -m ten -> is no whole number
plan --ranges a=0:1 -> No such option '--ranges': it is for another command, `secfc run`, so leave it out here
predict -> Missing argument 'MODEL'
predict m.npz -> Missing argument 'FILE...'
predict nowhere.npz an.csv -> nowhere.npz: No such file or directory. Check the path
predict an.csv bn.csv -> an.csv is no model: `secfc run --model` writes one
predict m.npz nowhere.csv -> nowhere.csv does not exist. Check the path
predict m.npz other.csv -> no column 'y': its columns are 'x', 'z'
predict m.npz huge.csv -> not the clients of the run, which are an, bn, cn | in order
predict m.npz an.csv --out old.csv -> old.csv exists already | --out | --force
predict m.npz an.csv --out m.npz --force -> one of the input files
predict m.npz text.csv -> line 3, column 'x' | is not a number | Correct the cell
predict m.npz hole.csv -> line 3, column 'x' | is empty | --missing drop
predict m.npz an.csv --missing mean -> no mean is known. Use --missing drop
predict m.npz an.csv --delimiter ab -> one character is needed

psu a.txt -> n=1: a union needs at least 2 clients
psu a.txt b.txt -> n=2 clients cannot hide anything | --mode server
psu a.csv b.csv c.csv -> a.csv has 4 columns | --id-column
psu a.csv b.csv c.csv --id-column nope -> no column 'nope' among the 4
psu a.csv b.csv c.csv --id-column id --encoding klingon -> a name such as | --encoding cp1252
psu a.csv b.csv c.csv --drop-unfit -> needs --schema
run FILES -k 2 --drop-unfit -> needs --schema
run FILES -k 2 --membership private --schema nope.toml -> nope.toml
run FILES -k 2 --verify-union -> --verify-union | --membership private
run FILES -k 2 --site-labels old.csv -> old.csv is a file: name a directory
run FILES -k 2 --site-labels nowhere/out -> the directory
check -> Missing argument 'FILE...'
describe -> Missing argument 'LABELS.csv'
describe nope.csv an.csv -> nope.csv: No such file
describe an.csv bn.csv -> is no file of labels | `secfc predict`
check an.csv --standardize --to-range -> are two scales: choose one
check-ids a.csv -> Missing option '--schema': The linkage schema | Add --schema SCHEMA.toml
table nowhere.jsonl -> Missing option '--row': The parameter down the side. Add --row TEXT
plot nowhere.jsonl --x n -> Missing option '--y': The column of numbers | Add --y TEXT
run FILES -k 2 --tol 0.1 -> No such option '--tol': steps end once no label changes: leave it out
run FILES -k 2 --metric cosine -> No such option '--metric': distances are Euclidean: leave it out
run *.csv -k 2 -> *.csv does not exist. Name each file by itself
run an.csv,bn.csv,cn.csv -k 2 -> does not exist. Name each file by itself
run a.csv b.csv c.csv -k 2 --id-column id --delimiter ; -> 'id,site,x,y'. Leave --delimiter out
run a.csv b.csv c.csv -k 2 --id-column id --no-header -> '3'. Take names from its first line (--header)
run a.csv b.csv c.csv -k 2 --id-column id --exclude z -> no column 'z' | Correct it
run a.csv b.csv c.csv -k 2 --id-column id --exclude id -> 'id' is to be left out, and has a use
run FILES -k 2 --linkage single --cut 9 -> --cut 9 of k=2 clusters: lower --cut, or raise -k
run FILES -k 2 --cut 2 -> where to cut a tree of clusters: add --linkage single
run FILES -k 1..1 -> an elbow needs at least three candidates. Raise most to 3, or give k as a number
run FILES -k 2 --checkpoint /proc/nothing -> needed in which files can be written. Name another (--checkpoint)
run FILES -k 2 --checkpoint an.csv -> Directory 'an.csv' is a file
run FILES -k 2 --workers 9 -> workers=9 of n=3 clients: take a number in [1, 3]
run FILES -k 2 --workers a,z -> is no client: name clients of the run (an, bn, cn)
run FILES -k 2 --floor 3 -> --floor has no meaning | leave it out
run FILES -k 2 --preset centers --floor 1000000 -> Lower the floor (--floor), or ask for fewer clusters (-k)
run FILES -k 2 --preset nope -> 'nope' is not one of 'default', 'fast', 'paper'
run FILES -k 2 --quota 3 -> add --membership private, or leave it out
run FILES -k 2 --skip 1- -> counted from 1, as 1-3,36. Use --skip 1-3
dp FILES -k 2 --epsilon 1 --radius 3 --protect persons -> no unit to protect: write person:6
grid --n 3,x -> n='x': a number of 1 or more is needed, as n=10
deploy audit verify an.csv -> is neither an audit.jsonl nor a report.json: name files that a site wrote
check-ids a.csv --schema nope.toml -> nope.toml
psu a.txt b.txt c.txt -t x -> 'x' is no whole number
psu latin.csv b.csv c.csv --id-column id -> is not UTF-8 | --encoding

attack geometry FILES -> -k is missing | -k 4
attack geometry FILES -k 2..4 -> '2..4' is no whole number
attack geometry an.csv bn.csv -k 2 -> n=2 clients cannot hide | = 3 are needed | Add clients
attack geometry FILES -k 100 -> k=100 clusters of m=36 points: lower k
attack geometry FILES -k 2 --known zed -> --known 'zed' is no client: the clients are an, bn, cn
attack geometry FILES -k 2 --plot old.csv -> old.csv exists already | --plot | --force
attack geometry hole.csv bn.csv cn.csv -k 2 -> line 3, column 'x' | is empty | --exclude
attack geometry text.csv bn.csv cn.csv -k 2 -> line 3, column 'x' | is not a number | --exclude
attack geometry inf.csv bn.csv cn.csv -k 2 -> row 1, feature 'x' | drop the row
attack geometry other.csv bn.csv cn.csv -k 2 -> missing are 'z' | --columns
attack differences an.csv bn.csv -k 2 -> need at least 3 clients | --client-column
attack differences FILES -k 2 --bound 1 -> outside the public bound [-1, 1]: raise the bound
attack reconstruct FILES -k 2 --row 99 -> --row 99: client 'cn' has the rows 0 to 11
attack dictionary --ids 501 -> --ids 501: at most --quota (500)
attack membership FILES -k 2 --runs 2 -> 2 is not in the range x>=4
attack membership FILES -k 2 --alarms 0.0001 -> cannot resolve | Give --runs | --alarms
attack membership FILES -k 2 --algorithm k-fed --epsilon 1 -> --epsilon has no meaning | leave it out
audit -> FedDP-KMeans needs FILEs
audit FILES -k 2 --epsilon 1 -> starts from points that the server holds | --server-file
audit FILES -k 2 --server-file an.csv -> needs a budget | --epsilon
audit FILES -k 2 --server-file an.csv --epsilon 1 --client zed -> no client: the clients are an, bn, cn
audit FILES -k 2 --server-file an.csv --epsilon 1 --runs 3 -> give at least 20, or leave it out
audit FILES -k 2 --server-file other.csv --epsilon 1 -> no column 'y'
audit hole.csv bn.csv cn.csv -k 2 --server-file an.csv --epsilon 1 -> line 3, column 'x' | is empty

example . -> a.csv exists already | with DIR | --force
example old.csv -> old.csv: File exists | another place with DIR
example old.csv/x -> old.csv/x: Not a directory | another place with DIR

plan an.csv -k 3 -> an.csv is no run file | (-n, -m, -d, -k)
plan -n 5 -m 1e3.5 -d 3 -> '1e3.5' is no whole number: write one as 10, or 1e5
grid --set sigma=-1 -> sigma=-1: a number of 0 or more is needed, as sigma=1.0
grid -> name what varies, as --n 5,10,20
grid --preset nope -> preset='nope': there are
grid --set nope=1 -> nope is no parameter of secfc: there are n, m, d, k
grid --k 2.. -> '2..' is no range: write 1..10
grid FILES --k 2 --out nowhere/r.jsonl -> does not exist. Create it first
grid FILES --k 2 --address x -> --address needs --backend dask
plot nowhere.jsonl --x k --y cost -> No such file or directory. Check the path
plot rows.jsonl --x nope --y k -> 'nope' is no column of these rows: there are k, cost
plot rows.jsonl --x k --y cost --out old.csv -> old.csv exists already | --out | --force
plot rows.jsonl --x k --y cost --out p.xyz -> Name p.xyz.png
plot rows.jsonl --x k --y k -> k has two places | leave one out
plot rows.jsonl --x k --y cost --where sost=3 -> 'sost' is no column of these rows: did you mean cost?
plot an.csv --x k --y cost -> an.csv, line 1: no row of a grid. Name what `secfc grid --out` wrote
plot empty.csv --x k --y cost -> no row to draw | Give the command of the grid again
plot rows.jsonl --x k --y cost --log yes -> 'yes' is not one of 'x', 'y', 'both', 'neither'
table rows.jsonl --row k --col k --value cost -> k has two places
table rows.jsonl --row nope --col k --value cost -> 'nope' is no column of these rows: there are k, cost

deploy key nowhere/site.key -> No such file or directory
deploy key dir -> dir is a directory: name the file of a key in it
deploy key a.csv -> may be read by others | chmod 600 a.csv
deploy key a.key --passphrase -> SECFC_PASSPHRASE_FILE name a file that holds it
deploy keys show nowhere.toml -> nowhere.toml: No such file or directory. Check the path
deploy keys rotate site.toml b.key -> --until is needed | --until 2027-01-31
deploy keys rotate site.toml n.key --until soon -> --until soon: a day is needed, as 2027-01-31
deploy keys rotate site.toml n.key --until 2020-01-31 -> that day is over; run files must be made anew first
deploy keys rotate site.toml a.key --until 2999-01-31 -> a.key is the present key | name another file
deploy keys revoke site.toml -> --key is needed
deploy keys revoke site.toml --key 12 -> --key 12: the 64 digits that `secfc deploy key` shows are needed
deploy keys revoke site.toml --key K0 -> is this site's present key | `secfc deploy keys rotate`
deploy keys learn site.toml good.toml -> good.toml is no notice of a key: `secfc deploy keys` writes them
deploy init -> name the run file to write, or the file of a site with --site
deploy init run.toml --linkage single -> it is for another command, `secfc run`, so leave it out here
deploy init run.toml -> a run file needs --client, --server, --hub, --features
deploy init run.toml --client a=12 -> 'a=12': NAME=PUBLIC is needed | `secfc deploy key`
deploy init run.toml --client server=K0 -> server is who serves: use --server, or rename the client
deploy init run.toml RUN --client a=K0 -> a is given twice
deploy init run.toml RUN --server 12 -> the identity of server has 1 byte | `secfc deploy key` shows them
deploy init run.toml RUN --server K0 -> two parties have the same identity
deploy init run.toml RUN --hub hub -> 'hub' is no address of a hub: write wss://
deploy init run.toml RUN -k 0 -> k: 0 is not in the range x>=1
deploy init run.toml RUN --algorithm nope -> algorithm = 'nope': one of secfc
deploy init run.toml RUN --set nope=1 -> nope is no word here. Known are
deploy init run.toml RUN --set disclosure=nope -> disclosure: 'nope' is not one of 'assignments'
deploy init run.toml RUN --set t=9 -> t=9 | Lower ell or t, or add clients
deploy init run.toml RUN --prepare nope -> nope is no word here. Known are
deploy init run.toml RUN --authority nowhere.pem -> nowhere.pem: No such file or directory. Check the path
deploy init run.toml RUN --features x,x -> features must name every column that is clustered, each once
deploy init run.toml RUN --features a:x,x -> a:x is named twice | Name a client's columns once
deploy init old.csv RUN -> old.csv exists already | --force
deploy init --site s.toml -> --site needs --party
deploy init --site s.toml --party a -> --site needs --data
deploy init --site s.toml --party server --data an.csv -> the server has no --data: leave it out
deploy init --site s.toml --party a --data an.csv --delimiter ab -> one character is needed
deploy check nowhere.toml -> nowhere.toml: No such file or directory. Check the path
deploy check bad.toml -> is no TOML | line 1 | Correct it
deploy check norun.toml -> nowhere.toml: No such file or directory
deploy join bad.toml -> is no TOML | line 1 | Correct it
deploy join site.toml -> text.csv, line 3 | `secfc deploy init --features` | id_column = "..." in [data]
deploy join semicolon.toml -> delimiter = "ab": one character is needed
deploy join key.toml -> b.key is another key than the run file has for a | name the right key
deploy join site.toml --page 99999 -> 99999 is not in the range
deploy join server.toml -> use `secfc deploy serve`
deploy status nowhere.toml -> nowhere.toml: No such file or directory. Check the path
deploy go-on site.toml -> --without is needed | --without h1
deploy go-on site.toml --without server -> nobody can take the server's place | start it again
deploy go-on site.toml --without nobody -> 'nobody' is no other client of this run | those are b, c
deploy abort site.toml -> no run is under way here
deploy clean nowhere.toml -> nowhere.toml: No such file or directory. Check the path
deploy clean bad.toml -> is no TOML | line 1 | Correct it
deploy serve site.toml -> use `secfc deploy join`
deploy hub good.toml -> needs --certificate and --key, or --plain
deploy hub good.toml --certificate bad.toml --key bad.toml -> Give PEM files that fit
deploy hub good.toml good.toml --plain -> the same session: `secfc deploy init` draws a new one
deploy rehearse nowhere.toml -> nowhere.toml: No such file or directory. Check the path
deploy rehearse good.toml --rows 5 -> 5 is not in the range
deploy audit verify nowhere.jsonl -> nowhere.jsonl: No such file or directory. Check the path
deploy audit verify an.csv -> an.csv is neither an audit.jsonl nor a report.json: name files that a site wrote
deploy audit show a.csv -> a.csv is neither an audit.jsonl nor a report.json: name files that a site wrote
deploy predict site.toml an.csv -> results/model.npz: No such file or directory
deploy predict site.toml an.csv --model m.npz -> m.npz is of another run than good.toml
deploy flare good.toml -> is not where a FLARE server is: write hub = "nvflare://
deploy flare-kit dir site.toml -> 'SITE': File 'dir' is a directory
""".strip()
CASES = [line.split(" -> ") for line in TABLE.splitlines() if line]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with files good and bad; and public identities of four parties."""
    folder, before = tmp_path_factory.mktemp("lines"), Path.cwd()
    os.chdir(folder)
    rng = np.random.default_rng(0)
    for name in "abc":
        rows = (rng.normal(size=(12, 2)) + 10 * (np.arange(12) % 2)[:, None]).round(3).tolist()
        lines = [f"{x},{y}" for x, y in rows]
        Path(f"{name}n.csv").write_text("\n".join(["x,y", *lines]) + "\n")
        named = [f"{CELL}{name}{i},{CELL}{i % 3},{line}" for i, line in enumerate(lines)]
        Path(f"{name}.csv").write_text("\n".join(["id,site,x,y", *named]) + "\n")
        Path(f"{name}.txt").write_text("".join(f"{CELL}{i}\n" for i in range(3)))
    texts = {
        "text.csv": f"x,y\n1,2\n{CELL},3\n", "hole.csv": "x,y\n1,2\n,3\n", "bad.toml": "[site\n",
        "date.csv": "x,y\n1,2\n1,2024-03-01\n", "ragged.csv": "x,y\n1,2\n1\n", "inf.csv": "x,y\n1,2\ninf,4\n",
        "empty.csv": "", "head.csv": "x,y\n", "twice.csv": "x,x\n1,2\n", "bare.csv": "1,2\n3,4\n",
        "quote.csv": f'x,y\n"{CELL}"2,3\n', "thousand.csv": "x;y\n1,234;2\n5,678;3\n", "old.csv": "keep",
        "other.csv": "x,z\n1,2\n3,4\n", "huge.csv": "x,y\n1,2\n", "notes.doc": CELL,
        "rows.jsonl": '{"k": 2, "cost": 1.5}\n{"k": 3, "cost": 1}\n',
        "norun.toml": site("a", "nowhere.toml", "a.key", "an.csv"),
        "site.toml": site("a", "good.toml", "a.key", "text.csv"),
        "key.toml": site("a", "good.toml", "b.key", "an.csv"),
        "server.toml": site("server", "good.toml", "server.key"),
        "semicolon.toml": site("a", "good.toml", "a.key", "an.csv", 'delimiter = "ab"\n'),
        **{f"broken.{kind}": CELL for kind in ("parquet", "xlsx", "npz", "npy", "csv.gz")},
    }  # fmt: skip
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("latin.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    np.save("cube.npy", np.zeros((2, 2, 2)))
    np.save("str.npy", np.array([["a"]]))
    Path("dir").mkdir()
    Path("a.csv").chmod(0o644)
    assert not shell(f"run {FILES} -k 2 --model m.npz --report r.json --labels l.csv").exit_code
    keys = []
    for name in ("a", "b", "c", "server"):
        shown = shell(f"deploy key {name}.key").stdout
        keys.append(re.search("[0-9a-f]{64}", shown)[0])
        assert stat.S_IMODE(Path(f"{name}.key").stat().st_mode) == 0o600
    good = f"deploy init good.toml {filled(RUN, keys)} --set bound=64".replace(
        "wss://hub", "ws://127.0.0.1:9"
    )
    assert not shell(good).exit_code
    Path("r.json").unlink(), Path("l.csv").unlink()
    yield keys
    os.chdir(before)


def site(party, run, key, data=None, more=""):
    rows = "" if data is None else f'[data]\npath = "{data}"\n{more}[floors]\npolicies = ["assignments"]\n'
    return f'[site]\nparty = "{party}"\nrun = "{run}"\nkey = "{key}"\n{rows}'


def shell(line):
    return CliRunner().invoke(main, line.split())


def filled(line, keys):
    line = line.replace("RUN", RUN).replace("FILES", FILES)
    for i, key in enumerate(keys):
        line = re.sub(rf"\bK{i}\b", key, line)
    return line


def options_of(words):
    """Flags of the command that these words call."""
    command = main
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
        if command is None:
            return {"--help"}
    return {"--help", *(flag for option in command.params for flag in (*option.opts, *option.secondary_opts))}


def everything():
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path().rglob("*")}


@pytest.mark.parametrize(("line", "pieces"), CASES, ids=[line for line, _ in CASES])
def test_a_bad_line_is_answered_with_value_rule_and_remedy(place, line, pieces):
    before = everything()
    done = shell(filled(line, place))
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2, done.output
    said = done.stderr.partition("Error: ")[2]
    for piece in pieces.split(" | "):
        assert piece in said
    assert "Traceback" not in done.output
    assert CELL not in done.output
    assert not done.stdout
    after = everything()
    if line in RECORDED:
        assert not before.keys() & RECORD
        written = json.loads(after["audit.jsonl"])
        assert (written["what"], written["outcome"]) == (line.split()[1], "refused")
        assert CELL.encode() not in after["audit.jsonl"]
        for name in RECORD:
            del after[name]
            Path(name).unlink()
    assert after == before
    # In backquotes stand other commands with their options; what was asked for may not exist.
    offered = set(re.findall(r"(?<![\w'-])--[a-z][a-z-]*", re.sub("`[^`]*`|No such option.*", "", said)))
    assert offered <= options_of(line.split()), "an option that the command does not have"


@pytest.mark.parametrize(
    "line",
    [
        "run a.csv b.csv c.csv -k 2 --id-column id --exclude site --header",
        "run FILES -k 2 --workers 3",
        "run FILES -k 1..3",
        "run FILES -k 2 --linkage single --cut 2",
        "run FILES -k 2 --preset centers --floor 3",
        "run FILES -k 2 --skip 3-4",
        "run FILES -k 3..5",
        "run FILES -k 2 --standardize robust",
        "run FILES -k 3..5 --plot p.xyz.png",
        "plot rows.jsonl --x k --y cost --out q.xyz.png",
        "grid --n 3 --m 60 --set sigma=0.5",
        "plan -n 5 -m 1e3 -d 3 -k 4",
    ],
)
def test_what_a_bad_line_is_told_works(place, line):
    done = shell(filled(line, place))
    assert done.exit_code == 0, done.output


def test_every_example_of_a_help_is_taken():
    """As far as its words go: files that it names are looked at later."""
    from tests.secfc.cli.test_options import COMMANDS

    taken = []
    for name, command in COMMANDS.items():
        for line in re.findall(
            rf"^ *({name} .*(?:\\\\\n.*)*)", (command.help or "").replace("\f", ""), re.MULTILINE
        ):
            if "..." in line:
                continue
            words = re.split(r"   |#", line.replace("\\\n", " "))[0].split()[len(name.split()) :]
            command.make_context(name, words)
            taken.append(line)
    assert len(taken) > 60
    with pytest.raises(click.BadParameter, match="no whole number"):
        COMMANDS["secfc plan"].make_context("plan", ["-m", "1e3.5"])


def test_every_command_is_in_the_table():
    def leaves(group, path=()):
        for name in group.entries:
            command = group.get_command(click.Context(group), name)
            yield from leaves(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]

    tried = [tuple(line.split()) for line, _ in CASES]
    for path in leaves(main):
        assert any(line[: len(path)] == path for line in tried), path


def test_plan_takes_each_option_of_clustering_or_says_that_it_is_left_out():
    known = {flag for p in main.get_command(click.Context(main), "plan").params for flag in p.opts}
    tried = set()
    for name in ("run", "dp", "overlap"):
        for option in main.get_command(click.Context(main), name).params:
            flag = option.opts[0]
            if flag.startswith("--") and flag not in known:
                tried.add(flag)
                assert "so leave it out here" in CliRunner().invoke(main, ["plan", flag]).output, flag
    assert {"--ranges", "--scale-share", "--categorical", "--features", "--schema", "--cut"} <= tried
