"""One table of who deviates, what it can falsify and learn, what stops it, and whether it is noticed.

Pages and officers read this table, so it holds today's truth: a row that says "noticed" or "named" has tests
that fail without the check, by their ids, and a test keeps them; one that says "unnoticed" may have a test
that holds its number.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from secfc.coded.membership import Private
from secfc.coded_kmeans.secfc import SecFC
from secfc.data.inputs import get_parameter
from secfc.disclosure import Distances, FinalLabelsOnly, NoiseInShares, NoisySums, OwnLabels
from secfc.kmeans.sampled import Sampled
from secfc.kmeans.starts import CenterSeparation
from secfc.scaling.ways import is_robust


@dataclass(frozen=True)
class DeviationRow:
    """What one kind of party can do by deviating, alone unless it says otherwise.

    who: it, and where.  falsifies, learns: beyond the policy.  stops: what does, or what is needed besides.
    seen: "noticed" (the run ends, naming nobody or suspects), "named", "unnoticed", or what holds in part.
    concerns: which runs, as "a+b|c": those of kinds a and b (`kinds_of`), or of c; "" for all.
    tests: ids of those that fail without what stops it, or play a deviating client that goes as far as the
    row says.
    """

    who: str
    falsifies: str
    learns: str
    stops: str
    seen: str
    concerns: str = ""
    tests: tuple[str, ...] = ()


REPLIES = "tests/secfc/disclosure/checked/test_checked_replies.py"
DECODED = "tests/secfc/disclosure/decoded/test_verification.py"
PRODUCTS = "tests/secfc/disclosure/checked/test_checked_products.py"
FOREIGN = "tests/secfc/active/test_a9_foreign_rows.py"
MERGED = "tests/secfc/active/test_a1_merged_rows.py"
JOINED = "tests/secfc/coded/test_joined.py"
DIVIDED = "tests/secfc/active/test_a15_joined_columns.py"
MOVED = "tests/secfc/active/test_a9_moved_centers.py"
SHARED = "tests/secfc/disclosure/checked/test_checked_shared_labels.py"
WORDS = "tests/secfc/disclosure/checked/test_checked_words.py"
WITNESSED = "tests/secfc/disclosure/test_dealerless_witnessed.py"
READING = "tests/secfc/active/test_a9_false_distances.py"
WRAPPED = "tests/secfc/active/test_a9_wrapped_distances.py"
SIZES = "tests/secfc/active/test_a9_sizes_as_tests.py"
CLUSTERS = "tests/secfc/active/test_a11_more_clusters.py"
VALIDITY = "tests/secfc/active/test_a1_input_validity.py"
PAIRS = "tests/secfc/test_pairs.py"
SUMS = "tests/secfc/secure_sum/test_aggregate.py"
FINAL = "tests/secfc/active/test_a12_final_labels.py"
HIDING = "tests/secfc/active/test_a21_hidden_owners.py"
NOISE = "tests/secfc/active/test_a22_under_noise.py"
WORD = "tests/secfc/active/test_a23_word_of_the_server.py"
LAST = "tests/secfc/active/test_a20_last_words.py"
FEW = "tests/secfc/active/test_a25_few_words_and_many_coins.py"
STEERED = "tests/secfc/active/test_a18_steered_sums.py"

TABLE = (
    DeviationRow(
        "up to `t` clients in masked replies, `AssignmentsOnly()`", "nothing", "nothing",
        "replies are checked before anything is opened, but for `2**-57`",
        "noticed", "labels+dealt",
        (f"{REPLIES}::test_one_false_residue_ends_the_run_before_a_label",
         f"{READING}::test_it_is_refused_before_its_first_false_question_opens_a_label"),
    ),
    DeviationRow(
        "up to `t` clients in masked replies, `Distances()`", "nothing",
        "whether a row is nearer than a number of its choice, once, as the run ends with it",
        "replies are checked before the server uses them, but for `2**-57`, and lie in the range of "
        "honest rows, unless blinding is dealt",
        "noticed", "distances",
        (f"{DECODED}::test_one_false_residue_ends_the_run_before_a_label",
         f"{DECODED}::test_without_the_check_a_responder_chooses_labels",
         f"{WRAPPED}::test_it_is_refused_at_its_first_false_question"),
    ),
    DeviationRow(
        "clients that only respond, without a dealer (`dealer=None`)", "nothing", "nothing",
        "the same check; the `t + 1` members that have parts of replies are in the rows below",
        "noticed", "labels+dealerless|owners+dealerless|final+dealerless|added+dealerless",
        (f"{READING}::test_it_is_refused_before_its_first_false_question_opens_a_label",
         f"{SIZES}::test_it_is_refused_before_its_first_false_question_opens_a_size"),
    ),
    DeviationRow(
        "any one client, or the server, in comparisons, without a dealer (`dealer=None`) with "
        "`Threshold(deviating=1)`, the default of `2 t + 2` clients",
        "nothing", "nothing",
        "each part is played by two, one of whom vouches for what the other says, in each round; what both "
        "deal of labels that stay shared is compared, and products of these are checked, but for `2**-60`",
        "noticed",
        "labels+dealerless+several|owners+dealerless+several|final+dealerless+several|added+dealerless+several",
        (f"{READING}::test_where_each_part_is_played_by_two_a_member_is_refused_before_a_label",
         f"{SIZES}::test_where_each_part_is_played_by_two_a_member_is_refused_before_a_size",
         f"{WITNESSED}::test_a_lie_in_any_message_ends_the_run_and_no_false_label_is_used",
         f"{WITNESSED}::test_a_lie_about_labels_that_stay_shared_ends_the_run_before_anything_of_its_step",
         f"{WITNESSED}::test_it_is_the_check_of_products_that_notices_other_labels"),
    ),
    DeviationRow(
        "up to `t` clients in masked replies of a start by `CenterSeparation`",
        "which rows of their own begin in no cluster, by false squares that fit",
        "of centers one threshold test a row of their own and start, by a number of their choice",
        "replies are checked, but for `2**-57`, with squares of rows that their owners share; where rows are "
        "not one client's each, these are checked as products, but for `2**-60`",
        "noticed", "labels+separated|distances+separated",
        (f"{NOISE}::test_who_deals_false_squares_and_replies_that_fit_moves_rows_of_its_own_alone",
         f"{NOISE}::test_a_number_added_alike_to_a_point_s_distances_is_refused_where_clusters_are_separated",
         f"{NOISE}::test_false_squares_that_fit_such_distances_of_a_separated_point_are_noticed",
         f"{NOISE}::test_where_rows_are_not_one_client_s_each_one_false_word_of_their_squares_ends_the_run"),
    ),
    DeviationRow(
        "up to `t` clients in sums of clusters that are rounded", "nothing", "nothing",
        "sums are checked before a center is shared, but for `2**-57`",
        "noticed", "labels+dealt+rounded|owners+dealt+rounded",
        (f"{REPLIES}::test_false_sums_end_the_run_before_a_number_is_opened",
         f"{SHARED}::test_false_sums_end_the_run_before_a_number_of_rounded_centers_is_opened"),
    ),
    DeviationRow(
        "up to `t` clients in masked replies, `OwnLabels()`, `FinalLabelsOnly(dealer=...)`", "nothing",
        "nothing", "replies are checked before a size, a change or a label is told, but for `2**-57`",
        "noticed", "owners+dealt|final+dealt",
        (f"{SHARED}::test_one_false_residue_ends_the_run_before_anything_is_told",
         f"{SIZES}::test_it_is_refused_before_its_first_false_question_opens_a_size"),
    ),
    DeviationRow(
        "up to `t` clients in masked replies, `DBSCAN`", "nothing", "nothing",
        "all pairs of a question are checked before a bit of it leaves the committee, but for `2**-57`",
        "noticed", "pairs",
        (f"{PAIRS}::test_a_false_reply_is_refused_before_a_bit_is_opened",
         f"{PAIRS}::test_without_the_check_a_reply_decides_who_is_near",
         "tests/secfc/disclosure/test_pair_tiles.py::test_a_point_with_a_coordinate_more_in_one_tile_is_refused"),
    ),
    DeviationRow(
        "up to `t` clients in distances, `Precomputed`", "nothing", "nothing",
        "replies are checked, but for `2**-57`, and distances to the first point must be the same in every "
        "question",
        "noticed", "pairs",
        (f"{PAIRS}::test_false_distances_are_refused",
         "tests/secfc/disclosure/test_pair_tiles.py::test_a_number_added_to_a_point_s_distances_to_one_block_is_refused"),
    ),
    DeviationRow(
        "the server that asks which points are within another distance than the plan's, `DBSCAN`", "nothing",
        "nothing", "every client makes all questions itself", "named", "pairs",
        (f"{PAIRS}::test_a_client_answers_no_question_but_the_one_of_the_plan",),
    ),
    DeviationRow(
        "a client that plants rows, `DBSCAN`, `Precomputed`", "labels and sizes, by what is near its rows",
        "**where others' points are, to within `eps`**: of each place where it plants `min_samples - 1` "
        "equal rows their label tells whether anybody's point is near",
        "nothing: rows of its own are its own, and how many it has is public", "unnoticed", "pairs",
        (f"{PAIRS}::test_a_client_that_plants_rows_learns_whether_points_of_others_are_near_them",),
    ),
    DeviationRow(
        "one client of the committee, or the dealer, `DBSCAN`", "who is near, and so labels",
        "**how far points are from one another**, as labels tell which bits it changed",
        "a client: `Threshold(deviating=1)`, the default of clients enough. The dealer's false tables: "
        "nothing, but nobody deals under `dealer=None`", "unnoticed", "pairs",
        (f"{PAIRS}::test_a_false_word_of_the_committee_is_noticed_where_two_play_each_part",),
    ),
    DeviationRow(
        "up to `t` clients in sums by labels that stay shared, `OwnLabels()`, `FinalLabelsOnly()`",
        "nothing", "nothing",
        "products are checked before a center depends on them, but for `2**-60`; shares of the last sums "
        "that go to clients which did not respond when new points are labeled by them, if `ell + t` that "
        "did respond play", "noticed", "owners|final",
        (f"{MOVED}::test_it_is_refused_before_a_size_depends_on_it",
         f"{MOVED}::test_without_the_check_sizes_count_rows_on_a_side_of_its_choice",
         f"{SHARED}::test_false_shares_of_the_last_sums_are_noticed_when_they_are_used",
         f"{PRODUCTS}::test_whatever_is_added_to_products_is_noticed"),
    ),
    DeviationRow(
        "one client of the committee in its part of labels that stay shared", "which of two rows is where",
        "whether it guessed the labels of both right, once a run",
        "a wrong guess ends the run: labels are one 1 a row, of the sizes that were told; where parts are "
        "played by two, they are compared", "unnoticed",
        "owners+alone|final+alone",
    ),
    DeviationRow(
        "one client of the committee in its part of rounded centers, where each part is played by one",
        "labels",
        "**which points lie on a side of centers that it moves, and so rows**, from labels or sizes",
        "`Threshold(deviating=1)`, the default where there are clients enough", "unnoticed",
        "labels+rounded+alone|owners+rounded+alone",
    ),
    DeviationRow(
        "one client of the committee that compares, where somebody deals and parts are played by two",
        "nothing", "nothing",
        "`Threshold(deviating=1)`, the default where there are clients enough: words are compared before "
        "labels or sizes leave, or shares of these, and before labels by rounded centers do",
        "noticed", "labels+dealt+several|owners+dealt+several|final+dealt+several|added+dealt+several",
        (f"{NOISE}::test_a_false_word_ends_the_run_before_a_noisy_sum_is_told",
         f"{WORDS}::test_one_flipped_bit_of_a_speaker_ends_the_run_before_a_label",
         f"{WORDS}::test_who_tells_different_words_to_two_is_noticed_in_the_next_openings",
         f"{WORDS}::test_false_shares_of_labels_are_used_by_nobody",
         f"{WORDS}::test_one_flipped_bit_ends_a_run_before_labels_by_rounded_centers",
         f"{REPLIES}::test_another_part_of_a_center_is_noticed_by_who_plays_it_as_well",
         "tests/secfc/active/test_a10_inner_bits.py::"
         "test_where_two_play_it_the_run_ends_before_a_label_of_the_first_false_step",
         f"{CLUSTERS}::test_a_member_that_flips_a_bit_of_any_question_is_refused_before_a_label_of_it",
         "tests/secfc/coded/test_faults.py::test_where_a_client_deviates_a_run_is_exact_or_suspects_it"),
    ),
    DeviationRow(
        "one client of the committee that compares, where each part is played by one",
        "labels, and whether `Joined(max_explained=...)` withholds them",
        "**how near a row is to a border, and so rows**, in some hundred steps; where labels stay shared, in "
        "one try, whether the only row that changed its label is one of its choice",
        "`Threshold(deviating=1)`, the default of clients enough: without a dealer from `2 t + 2` on",
        "unnoticed", "labels+alone|owners+alone|final+alone",
        ("tests/secfc/active/test_a24_withheld_labels.py::"
         "test_who_speaks_last_has_labels_told_only_where_it_plays_its_part_alone",),
    ),
    DeviationRow(
        "one of the `t + 1` members that have parts of replies, without a dealer, by other bits of its part "
        "than it answers for, where it alone has it", "labels",
        "**every row from labels, chosen rows to the last bit from sizes**; where neither is told, which "
        "points are nearer to what it chooses, from the last labels and the number of steps",
        "`Threshold(deviating=1)`, the default of `2 t + 2` clients, by which another knows its part: three "
        "cannot have it",
        "unnoticed", "labels+dealerless+alone|owners+dealerless+alone|final+dealerless+alone",
        (f"{FINAL}::test_without_checks_the_number_of_steps_says_on_which_side_of_a_threshold_a_row_is",),
    ),
    DeviationRow(
        "the dealer: the server by false tables, the client of `dealer=` also by false replies of its own",
        "labels",
        "what `Distances()` shows, up to rotation; of revealed centers how two rows differ",
        "trusted with dealing: a client's own replies pass checks whose masks it knows, and its tables read "
        "as much; nobody deals under `dealer=None`",
        "unnoticed", "labels+dealt|owners+dealt|final+dealt",
        ("tests/secfc/active/test_a23_word_of_the_server.py::"
         "test_a_dealer_that_exchanges_rows_modulo_one_prime_reads_how_they_differ_of_revealed_centers",),
    ),
    DeviationRow(
        "up to `t` clients in masked replies, `NoisySums()`", "nothing", "nothing",
        "replies are checked before labels are dealt, but for `2**-57`, with shared squares of rows, which "
        "are checked as products, but for `2**-60`",
        "noticed", "added+dealt",
        (f"{NOISE}::test_a_number_added_alike_to_a_row_s_distances_ends_the_run",
         f"{NOISE}::test_false_squares_that_fit_such_distances_are_noticed_as_products"),
    ),
    DeviationRow(
        "the dealer, or one client of the committee where each part is played by one, `NoisySums()`",
        "centers", "**sums in which a row counts more than its noise covers**, as it says how far rows are",
        "`Threshold(deviating=1)`, the default of clients enough. The dealer's false tables: nothing, but "
        "nobody deals under `dealer=None`", "unnoticed", "added+dealt|added+alone",
        (f"{NOISE}::test_where_one_plays_each_part_a_flipped_bit_moves_noisy_sums",),
    ),
    DeviationRow(
        "such a one by labels that differ modulo primes, `NoisySums()`", "nothing", "nothing",
        "sums of labels are checked to be alike modulo all, but for `2**-40`", "noticed",
        "added+dealt|added+alone",
        (f"{NOISE}::test_a_row_left_out_modulo_one_prime_ends_the_run_before_a_noisy_sum_is_told",),
    ),
    DeviationRow(
        "a client in its part of noisy sums, or the server in the centers it makes of them, `NoisySums()`",
        "centers, by anything; the server also for some clients alone",
        "nothing that the budget does not cover",
        "nothing: of their noise the others' lies on whatever is told", "unnoticed", "added",
        (f"{NOISE}::test_a_false_part_of_noisy_sums_moves_centers_and_reads_nothing_more",),
    ),
    DeviationRow(
        "a client with longer rows than the radius, `NoisySums()`",
        "centers, by a row that it alone holds, which also counts as a near one where its distance wraps; "
        "its noise could as well",
        "nothing that the budget does not cover: sums of others' rows are the same",
        "the test of rows, from far longer ones on. Where an honest client holds the row, the check of "
        "merged rows, but for `2**-59`. Distances of joined columns do not wrap", "unnoticed", "added",
        (f"{NOISE}::test_a_row_of_ones_own_whose_distance_wraps_counts_as_a_near_one_and_moves_nothing_else",
         f"{NOISE}::test_nobody_makes_a_row_that_an_honest_client_holds_a_far_one",
         "tests/secfc/disclosure/test_noisy_columns.py::"
         "test_a_column_that_an_owner_makes_up_never_has_others_columns_of_a_far_row_counted"),
    ),
    DeviationRow(
        "a client in noisy distances or its noise on them, `NoiseInShares()`", "labels",
        "nothing that the budget does not cover",
        "nothing: of their noise the others' lies on whatever its labels are of", "unnoticed", "blurred",
        (f"{NOISE}::test_false_noisy_distances_choose_labels_and_stay_under_the_others_noise",),
    ),
    DeviationRow(
        "the dealer together with one client of the committee", "everything", "every distance",
        "nothing; there is no dealer under `dealer=None`", "unnoticed", "dealt",
    ),
    DeviationRow(
        "up to `t` clients in gains of splits and losses of merges, `AssignmentsOnly()`", "nothing",
        "nothing",
        "these numbers are checked as replies are, but for `2**-57`",
        "noticed", "labels",
        (f"{DECODED}::test_a_false_gain_or_loss_ends_the_run_before_it_is_used",),
    ),
    DeviationRow(
        "up to `t` clients in squares of rows, of which costs are made, `OwnLabels()`", "nothing", "nothing",
        "products are checked before a cost is told, but for `2**-60`",
        "noticed", "owners",
        (f"{SHARED}::test_false_squares_of_rows_are_noticed_before_costs_show_whose_they_are",),
    ),
    DeviationRow(
        "up to `t` clients in gains of splits, `OwnLabels()`", "nothing", "nothing",
        "products are checked before gains are told, but for `2**-60`, and these by shares of their own",
        "noticed", "owners",
        (f"{SHARED}::test_false_gains_are_not_used_to_choose_a_split",
         f"{SHARED}::test_of_gains_of_several_segments_their_sum_alone_is_opened_and_is_checked"),
    ),
    DeviationRow(
        "a client in costs of clusters", "which of the planned starts is taken, of an `Elbow` which number "
        "of clusters, and the cost that is told",
        "how costs compare with numbers of its choice: log2(`n_init`) bits a run, 3.3 of ten starts, and "
        "log2(`most - least`) of an `Elbow`",
        "nothing: a row's square cancels where replies compete, and nowhere else; each start ends as "
        "planned, so it takes the worst of them at most", "unnoticed", "labels|owners|final|distances",
        (f"{DECODED}::test_false_costs_take_any_planned_start_and_nothing_else",),
    ),
    DeviationRow(
        "a client in distances by which `KMeansPlusPlus` draws points", "which points are drawn: any",
        "how distances to a drawn point compare with numbers of its choice: log2(`m`) bits for each point "
        "that is drawn, 14 of 16,384 rows",
        "nothing, for the same reason; each step from there is exact", "unnoticed",
        "labels|owners|final|distances",
        (f"{DECODED}::test_false_distances_draw_any_point_of_a_start_and_every_step_is_exact",),
    ),
    DeviationRow(
        "a client in replies under `Distances()`, up to `c` with `Threshold(corrected=c)`",
        "nothing", "nothing",
        "error correction of the code; without `corrected` false replies that are dealt make labels of "
        "their choice, unnoticed", "named",
        "distances",
        ("tests/secfc/coded/test_corrected.py::test_a_lie_in_replies_is_found_and_its_client_asked_no_more",),
    ),
    DeviationRow(
        "a client that shares rows beyond the public bound", "nothing", "nothing",
        "a test of shared rows before the first label; with `Private()` nobody is named", "named",
        "labels|owners|final|distances|added|blurred",
        (f"{VALIDITY}::test_far_rows_are_refused_and_named",
         "tests/secfc/active/test_a1_merged_rows.py::test_far_rows_are_refused_though_nobody_is_named"),
    ),
    DeviationRow(
        "a client that shares other rows than it has, within the bound", "the result, as far as rows do",
        "what the result then tells", "nothing: no protocol knows the truth", "unnoticed",
    ),
    DeviationRow(
        "the server that asks for more, or for other steps, than the plan has", "nothing", "nothing",
        "every client walks the plan's questions itself", "named",
        "labels|owners|final|distances|added|blurred",
        ("tests/secfc/active/test_a3_questions.py::test_more_steps_than_planned_are_refused",
         "tests/secfc/active/test_a3_questions.py::test_another_start_than_the_seed_gives_is_refused"),
    ),
    DeviationRow(
        "the server that calls clients silent once it has heard the coins of all, or a client that works "
        "with it and keeps its coin back",
        "which of `n - needed + 1` seeds at most it is, of a start or of the test of rows, whose odds to "
        "miss rows grow as much: of four, of six clients with `t = 1`",
        "what the start that it chooses tells, of as many planned ones",
        "nothing: whom it calls silent is lost, and their seed is still the others' coins; alone a client "
        "hears no coin before it opens its own", "unnoticed",
        "labels|owners|final|distances|added|blurred",
        (f"{FEW}::test_a_server_chooses_among_as_many_starts_as_it_may_call_clients_silent",),
    ),
    DeviationRow(
        "the server in what it alone decodes: gains, losses, costs, points that are drawn; in the cut of a "
        "dendrogram and in opened centers, also for some clients alone",
        "which of the planned splits, merges, starts or points are taken, of an `Elbow` which `k`; these "
        "centers and this cut by anything",
        "labels of the steps that it chooses", "nothing: each step from there is exact", "unnoticed",
        "labels|owners|final|distances",
        (f"{WORD}::"
         "test_false_gains_at_the_server_take_another_planned_split_and_every_step_is_exact",),
    ),
    DeviationRow(
        "the server in labels, where it decodes them, `Distances()`, `NoiseInShares()`", "labels",
        "distances to centers of clusters of its choice, as often as there are steps; of noisy ones nothing "
        "that the budget does not cover",
        "nothing: where clients compare they hear labels from one another", "unnoticed", "distances|blurred",
        (f"{WORD}::test_a_server_that_decodes_labels_can_say_others_and_else_is_refused",),
    ),
    DeviationRow(
        "the server in the labels that it tells clients, `DBSCAN`, `Precomputed`, or those that do not work "
        "(`Runtime(workers=...)`)",
        "labels", "nothing", "nothing: these clients heard nothing else", "unnoticed", "pairs|workers",
        (f"{WORD}::test_a_server_that_alone_knows_who_is_near_can_tell_a_client_other_labels",),
    ),
    DeviationRow(
        "a client whose summand of a secure sum is not what it has", "the sum, by anything",
        "no more than the sum", "nothing", "unnoticed", "sums",
    ),
    DeviationRow(
        "a client whose counts are not those of its rows, under robust scaling",
        "center and unit of every feature, by anything, and so labels",
        "**how many of others' values lie below numbers of its choice**, up to 240 a feature, and so the "
        "largest of them",
        "nothing: counts that no rows have end the run, others pass", "unnoticed", "counts",
    ),
    DeviationRow(
        "a client that counts rows of its invention, `SharedProfile()`",
        "sizes and means of clusters, by anything",
        "**the sum of however few rows others have in a cluster**, as its own count towards the floor",
        "nothing: sums that no rows have end the run, others pass", "unnoticed", "profile",
    ),
    DeviationRow(
        "a client that says it has rows where it has none, or has others in each step, "
        "`FederatedLloyd(floor=...)`",
        "which rows of others a floor holds, and centers",
        "**single rows of others: where they move alone, or by three sums whose centers it moves**",
        "each client for itself, by `bunch_rows`; numbers of rows that no rows have end the run, others pass",
        "unnoticed", "steps",
        ("tests/secfc/federated/test_course.py::"
         "test_a_client_that_says_it_has_rows_where_it_has_none_reads_a_row_that_moves_alone",
         f"{STEERED}::test_a_floor_holds_for_two_sums_and_three_that_a_client_steers_tell_a_row",
         f"{STEERED}::test_rows_that_a_client_bunched_itself_are_told_by_no_sums"),
    ),
    DeviationRow(
        "up to `t` members that tell false shares of a secure sum or of opened centers, where no members are "
        "lost", "nothing", "nothing",
        "who reads waits for `ell + 2t` shares, of centers for all, and refuses what is on no polynomial",
        "noticed", "sums",
        (f"{SUMS}::test_a_false_word_of_a_sum_is_noticed_always",
         f"{SUMS}::test_whatever_is_summed_a_member_that_tells_a_false_word_ends_the_run",
         f"{SUMS}::test_so_many_words_as_the_module_says_notice_so_many_lies"),
    ),
    DeviationRow(
        "members that do so where others are lost or do not consent to centers, more than `w - ell - t` of "
        "`w` whose shares come; more than `w - 2t - 1` that tell false distances of local clusters",
        "the sum, centers or matches, by anything", "no more than these tell",
        "fewer are noticed: of sums one always is, as `ell + t + 1` shares are needed, of centers if so many "
        "consent, of distances with a member more than `2t + 1`", "unnoticed", "sums",
        (f"{FEW}::test_as_many_that_deviate_as_there_are_words_beyond_those_that_decode_make_a_sum_anything",
         f"{FEW}::test_of_four_words_two_move_centers_and_of_five_the_run_ends"),
    ),
    DeviationRow(
        "the member that deals the key of a run, or who gives its seed, `FederatedLloyd(start=Sampled(...))` "
        "without a floor",
        "which rows are in samples",
        "**single rows of others**: it draws until a sample has one row beside its own",
        "`floor`, which samples must be large enough for", "unnoticed", "lost+sampled",
        (f"{FEW}::test_who_deals_the_key_of_a_run_draws_until_a_sample_has_one_row_of_others",),
    ),
    DeviationRow(
        "the server that tells clients different sums, questions or results", "nothing", "nothing",
        "who deals shares shows members digests of what it was told; in the end all do (whoever carries all "
        "messages can keep these back, and be believed by halves, without a quorum)",
        "noticed", "sums",
        ("tests/secfc/federated/test_missing_features.py::"
         "test_a_server_that_tells_two_clients_different_sums_is_noticed_before_they_add_again",
         "tests/secfc/feddp/test_feddp.py::"
         "test_a_server_that_asks_clients_different_questions_is_noticed_before_they_add",
         f"{LAST}::test_who_is_told_other_last_sums_ends_the_run",
         f"{LAST}::test_who_is_told_other_noisy_centers_ends_the_run",
         f"{LAST}::test_who_carries_all_messages_can_tell_halves_other_centers_without_a_quorum"),
    ),
    DeviationRow(
        "the server that tells all clients the same false sums or centers", "the result",
        "the sums that follow, within a budget if there is one", "nothing", "unnoticed", "sums",
    ),
    DeviationRow(
        "the server that calls clients lost in turn, with any client, `FederatedLloyd` without a floor",
        "whose rows count in a step",
        "**sums and numbers of rows of each client by cluster**, with `n_init` or a chosen `k` their squares "
        "too, as all clients do of one that comes late, leaves or is lost", "`floor`", "unnoticed", "lost",
        ("tests/secfc/federated/test_members.py::"
         "test_a_server_that_calls_a_client_lost_shows_clients_its_sums",),
    ),
    DeviationRow(
        "an owner that asks for rows it does not hold, `OwnLabels()` with `Private()`", "nothing",
        "nothing, but whether a guess of a row is right",
        "it must know sums of the row's features, which are checked before a label is told, but for `2**-60`",
        "noticed", "owners+private",
        (f"{FOREIGN}::test_it_is_refused_before_an_owner_is_told_a_label",
         f"{FOREIGN}::test_without_the_check_it_reads_the_labels_of_all_rows",
         f"{HIDING}::test_an_owner_whose_key_is_at_rows_of_others_is_refused"),
    ),
    DeviationRow(
        "up to `t` clients in labels that they tell an owner, `OwnLabels()` with `Private()`", "nothing",
        "nothing", "an owner hears labels times a key of its own as well, but for `2**-29`", "noticed",
        "owners+private",
        (f"{HIDING}::test_a_responder_that_adds_to_a_label_ends_the_run_whosever_row_it_is",),
    ),
    DeviationRow(
        "a client that says it holds rows of others, or divides rows falsely, `Private(counts=\"hidden\")`",
        "nothing", "nothing, but whether a guess of a row is right",
        "indicators are checked to be bits, and rows to be what all who say so hold, before a label, but for "
        "`2**-60`",
        "noticed", "private+unseen",
        (f"{MERGED}::test_indicators_that_are_none_end_the_run_before_anything_is_divided",
         f"{MERGED}::test_who_says_that_it_holds_a_foreign_row_ends_the_run_before_a_label",
         f"{MERGED}::test_a_lie_while_rows_are_divided_ends_the_run_before_a_label"),
    ),
    DeviationRow(
        "two clients that hold a row of theirs together, `Private(counts=\"hidden\")`", "merged rows",
        "remainders of others' rows", "`counts=\"opened\"`", "unnoticed", "private+unseen",
    ),
    DeviationRow(
        "a client that misstates which rows it holds, `Private()` with opened counts",
        "how much a row weighs", "nothing", "nothing: rows stay within their range", "unnoticed",
        "private+counted",
    ),
    DeviationRow(
        "an owner that chooses its columns, or deals other rows than it found, so that labels tell "
        "columns of another, `Joined()`", "the result",
        "**a column of few values: of all people by columns of noise; with three clusters or more, by an "
        "ordinary column of yes and no, of all who are no there**; of half by columns that hide it in labels",
        "nothing; labels are told to owners alone by default, with `max_explained` to nobody if they explain "
        "much of a column, as those of noise do, and of aimed columns do not",
        "unnoticed", "joined+told",
        (f"{JOINED}::test_what_labels_tell_one_owner_of_the_column_of_another",
         "tests/secfc/disclosure/test_withheld_labels.py::test_nobody_is_told_a_label_or_where_centers_are"),
    ),
    DeviationRow(
        "an owner that claims people whom it lacks, `Joined()`", "columns of these people",
        "**which of them all other owners hold, and labels, if any are told, which tell columns of others**",
        "nothing; with a `quota` only so many", "unnoticed", "joined",
        (f"{DIVIDED}::test_who_claims_people_whom_it_lacks_learns_whom_all_others_hold_and_their_labels",),
    ),
    DeviationRow(
        "the server, or a client that counts itself twice, so that people are kept whom an owner lacks, "
        "`Joined()`", "nothing", "which owner lacks a person, once, as the run ends",
        "an owner sees rows that it does not hold", "noticed", "joined",
        (f"{JOINED}::test_a_server_that_keeps_other_rows_is_found_out",
         f"{DIVIDED}::test_who_counts_itself_twice_is_shown_who_lacks_a_person_and_the_run_ends"),
    ),
    DeviationRow(
        "who counts itself twice, or deals at rows of others, where clients with the same columns divide "
        "people, `Joined()`",
        "labels: people count whose columns nobody has, as zeros, or with the sum of two rows",
        "**which values of a third of the others' people are above numbers of its choice**, from labels",
        "nothing: none of these clients knows whom the others hold", "unnoticed", "joined+told",
        (f"{DIVIDED}::"
         "test_who_deals_at_people_of_others_reads_whether_their_values_are_above_numbers_of_its_choice",),
    ),
    DeviationRow(
        "`t + 1` clients together", "everything", "everything", "a larger `t`", "unnoticed",
        "labels|owners|final|distances|added|blurred|sums",
    ),
    DeviationRow(
        "whoever carries messages",
        "nothing: it can delay a run, also for good; where connections are not protected it can end it",
        "who takes part, when, how many bytes",
        "sealed messages; in deployments, records that each connection numbers", "noticed", "",
        ("tests/secfc/coded/test_faults.py::test_every_flipped_byte_of_every_sealed_message_is_refused",
         "tests/secfc/deploy/test_lying_hub.py::test_a_hub_that_lies_costs_time_and_nobody_its_place"),
    ),
)  # fmt: skip

COLUMNS = ("who deviates", "can falsify", "can learn beyond the policy", "what stops it", "seen")


def cells_of(row: DeviationRow) -> tuple[str, str, str, str, str]:
    """The cells of a row, of COLUMNS."""
    return row.who, row.falsifies, row.learns, row.stops, row.seen


POLICY_WORDS = (
    (Distances, "distances"), (OwnLabels, "owners"), (FinalLabelsOnly, "final"), (NoisySums, "added"),
    (NoiseInShares, "blurred"),
)  # fmt: skip


# Such words for runs of other algorithms.
OTHER_KINDS = {
    "SharedProfile": "sums profile",
    "DBSCAN": "pairs",
    "Precomputed": "pairs",
    "FedDPKMeans": "sums",
    "FederatedLloyd": "sums",
}


def kinds_of(algorithm: Any, plan: Any = None) -> frozenset[str]:
    """What rows may concern a run of an algorithm: words of `DeviationRow.concerns`.

    plan: says how many play a part of a committee; without it, it is as many as the policy would have.
    """
    capabilities = algorithm.capabilities
    if not isinstance(algorithm, SecFC):
        floor = get_parameter(algorithm, "floor")
        more = ["lost"] if floor == 1 else ["steps"] if floor else []
        more += ["sampled"] * isinstance(get_parameter(algorithm, "start"), Sampled)
        return frozenset([*OTHER_KINDS.get(type(algorithm).__name__, "").split(), *more])
    policy = capabilities.policy
    found = {word for kind, word in POLICY_WORDS if isinstance(policy, kind)} or {"labels"}
    compares = not found & {"distances", "blurred"}
    if compares:
        found.add("dealt" if policy.capabilities.dealer else "dealerless")
    holds = {
        "separated": isinstance(algorithm.init, CenterSeparation),
        "rounded": algorithm.quantization.centers == "rounded",
        "joined": capabilities.joins,
        "told": capabilities.joins > policy.capabilities.sums,  # of noisy sums no label is
        "workers": algorithm.runtime.workers is not None,
    }
    found |= {word for word, there in holds.items() if there}
    if isinstance(capabilities.membership, Private):
        found |= {"private", "unseen" if capabilities.membership.counts == "hidden" else "counted"}
    if compares:
        found.add("several" if getattr(plan, "deviating", _several_wanted(algorithm)) else "alone")
    return frozenset(found)


def scale_kinds(way: Any) -> frozenset[str]:
    """Such words for what clients did to find a common scale: of a way of `secfc.scaling`, or None."""
    return frozenset([] if way is None else ["sums", "counts"] if is_robust(way) else ["sums"])


def _several_wanted(algorithm: SecFC) -> bool:
    """Whether several play each part of a committee, if there are clients enough."""
    return algorithm.capabilities.policy.capabilities.checks_words and algorithm.threshold.deviating != 0


def rows_about(kinds: Collection[str]) -> tuple[DeviationRow, ...]:
    """Rows that concern runs of these kinds, in the order of the table."""

    def about(row: DeviationRow) -> bool:
        ways = row.concerns.split("|") if row.concerns else [""]
        return any(set(filter(None, way.split("+"))) <= set(kinds) for way in ways)

    return tuple(row for row in TABLE if about(row))
