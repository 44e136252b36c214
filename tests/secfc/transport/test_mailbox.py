"""The rules of a mailbox: what comes twice, too early or too late, and what is taken."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secfc.errors import ProtocolError, TooFewReplies
from secfc.roles.exchange import PHASE, Exchange, Mailbox, run_alone
from secfc.transport.simulate import simulate


def waiting(number=0, expect=("a",), **options):
    """A mailbox of a party that waits for these."""
    mailbox = Mailbox()
    mailbox.wait(Exchange({}, expect, round=number, **options))
    return mailbox


def test_what_is_awaited_is_handed_over_once():
    mailbox = waiting(3, ("a", "b"))
    mailbox.keep_message("a", 3, "from a")
    assert (mailbox.due("a"), mailbox.due("b")) == (3, None)
    assert (mailbox.came(), mailbox.complete()) == (1, False)
    mailbox.keep_message("b", 3, "from b")
    assert (mailbox.came(), mailbox.complete()) == (2, True)
    inbox = mailbox.collect()
    assert inbox == {"a": "from a", "b": "from b"}
    assert inbox.rounds == {"a": 3, "b": 3}
    assert (mailbox.came(), mailbox.count_waiting("a"), mailbox.collect()) == (0, 0, {})


def test_messages_come_in_the_order_in_which_they_were_awaited_not_in_that_of_their_senders():
    mailbox = waiting(0, ("b", "a", "c"))
    for sender in "acb":
        mailbox.keep_message(sender, 0, sender)
    assert list(mailbox.collect()) == ["b", "a", "c"]


@pytest.mark.parametrize(("rounds", "due"), [({6}, None), ({7}, 7), ({6, 8, 9}, 9), ({PHASE + 7}, None)])
def test_the_round_itself_is_awaited_or_a_newer_one_of_its_phase_in_step(rounds, due):
    assert Exchange({}, ("a",), round=5, accept=7, exact=False, step=2).due(rounds) == due


def test_a_role_that_is_run_alone_has_nobody_to_speak_to():
    def say(words):
        yield from words
        return "ended"

    assert run_alone(say([])) == "ended"
    with pytest.raises(ProtocolError, match="without peers"):
        run_alone(say([Exchange({})]))


def test_who_awaits_nobody_has_everything():
    mailbox = Mailbox()
    mailbox.keep_message("a", 0, "early")
    assert (mailbox.complete(), mailbox.came(), mailbox.collect()) == (True, 0, {})
    assert mailbox.count_waiting("a") == 1


def test_what_comes_twice_counts_once_and_the_first_counts():
    mailbox = waiting(1)
    mailbox.keep_message("a", 1, "first")
    mailbox.keep_message("a", 1, "again")
    assert mailbox.count_waiting("a") == 1
    assert mailbox.collect() == {"a": "first"}
    mailbox.keep_message("a", 1, "after it was taken")
    assert mailbox.count_waiting("a") == 0
    mailbox.wait(Exchange({}, ("a",), round=1))  # awaited again, but gone
    assert not mailbox.complete()


def test_what_overtakes_waits_for_its_turn():
    mailbox = waiting(1)
    mailbox.keep_message("a", 2, "second")
    assert not mailbox.complete()
    mailbox.keep_message("a", 1, "first")
    assert mailbox.collect() == {"a": "first"}
    mailbox.wait(Exchange({}, ("a",), round=2))
    assert mailbox.collect() == {"a": "second"}


def test_what_is_awaited_may_have_come_long_before():
    mailbox = Mailbox()
    mailbox.keep_message("a", 0, "at the very first round")
    mailbox.keep_message("a", 7, "early")
    mailbox.wait(Exchange({}, ("a",), round=0))
    assert mailbox.collect() == {"a": "at the very first round"}
    mailbox.wait(Exchange({}, ("a",), round=5, accept=7))
    assert mailbox.collect() == {"a": "early"}


def test_rounds_before_the_first_are_none():
    mailbox = Mailbox()
    mailbox.keep_message("a", -1, "no round")
    assert mailbox.count_waiting("a") == 0


def test_where_a_newer_one_will_do_older_ones_that_were_passed_over_are_gone():
    mailbox = waiting(4, exact=False, step=2)
    for number in (7, 5, 8, 6):
        mailbox.keep_message("a", number, str(number))
    inbox = mailbox.collect()
    assert (inbox, inbox.rounds) == ({"a": "6"}, {"a": 6})
    assert (mailbox.taken("a"), mailbox.count_waiting("a")) == (6, 2)
    mailbox.keep_message("a", 4, "too late")
    assert mailbox.count_waiting("a") == 2
    mailbox.wait(Exchange({}, ("a",), round=7))
    assert mailbox.collect() == {"a": "7"}
    mailbox.wait(Exchange({}, ("a",), round=PHASE, exact=False))
    assert not mailbox.complete()  # the eighth is of the phase before


def test_what_is_late_takes_no_memory_whether_it_came_before_or_comes_now():
    mailbox = Mailbox()
    for number in range(5):
        mailbox.keep_message("a", number, number)
    mailbox.wait(Exchange({}, ("a",), round=3))
    assert mailbox.count_waiting("a") == 2
    mailbox.keep_message("a", 2, "late")
    assert mailbox.count_waiting("a") == 2
    assert mailbox.taken("a") == -1  # dropped is not taken
    assert mailbox.collect() == {"a": 3}


def test_what_is_late_of_one_sender_is_not_of_another():
    mailbox = waiting(5)
    mailbox.keep_message("b", 2, "of another")
    mailbox.wait(Exchange({}, ("b",), round=2))
    assert mailbox.collect() == {"b": "of another"}
    assert (mailbox.taken("a"), mailbox.taken("b")) == (-1, 2)


def test_what_was_taken_before_a_crash_is_gone():
    mailbox = Mailbox()
    for number in (2, 3, 4):
        mailbox.keep_message("a", number, number)
    mailbox.wait(Exchange(taken={"a": 3}))
    assert (mailbox.taken("a"), mailbox.count_waiting("a")) == (3, 1)
    mailbox.keep_message("a", 3, "again")
    assert mailbox.count_waiting("a") == 1
    mailbox.forget_rounds({"a": 1})  # older than what was taken: nothing comes back
    assert mailbox.taken("a") == 3
    mailbox.keep_message("a", 2, "again")
    assert mailbox.count_waiting("a") == 1
    mailbox.wait(Exchange({}, ("a",), round=4))
    assert mailbox.collect() == {"a": 4}


def test_taken_is_what_was_handed_over():
    mailbox = waiting(0)
    mailbox.keep_message("a", 0, "x")
    assert mailbox.taken("a") == -1
    mailbox.collect()
    assert mailbox.taken("a") == 0


# --- against the definition ---------------------------------------------------------------------------

SENDERS = ("a", "b")
arrivals = st.tuples(st.sampled_from(SENDERS), st.integers(0, 12))
waits = st.builds(
    Exchange,
    expect=st.sets(st.sampled_from(SENDERS)).map(lambda chosen: tuple(sorted(chosen))),
    accept=st.integers(0, 3),  # beyond what was awaited last
    exact=st.booleans(),
    step=st.integers(1, 3),
)


@given(st.lists(st.one_of(arrivals, waits, st.just("collect")), max_size=60))
def test_it_hands_over_what_the_rules_say_and_keeps_nothing_else(course):
    mailbox, now = Mailbox(), Exchange()
    came = defaultdict(dict)  # everything that ever came: by sender, the first of each round
    taken, awaited = dict.fromkeys(SENDERS, -1), dict.fromkeys(SENDERS, 0)
    for number, event in enumerate(course):
        match event:
            case Exchange():
                # Rounds rise in what is awaited, as they do in what is sent.
                first = max(awaited[s] for s in event.expect) + event.accept if event.expect else 0
                now = Exchange({}, event.expect, accept=first, exact=event.exact, step=event.step)
                awaited |= dict.fromkeys(event.expect, first)
                mailbox.wait(now)
            case (sender, at):
                mailbox.keep_message(sender, at, number)
                if at >= awaited[sender] and at > taken[sender]:
                    came[sender].setdefault(at, number)
        left = {s: {r: x for r, x in came[s].items() if r > taken[s] and r >= awaited[s]} for s in SENDERS}
        due = {s: now.due(left[s]) for s in SENDERS}
        rounds = {s: due[s] for s in now.expect if due[s] is not None}
        assert {s: mailbox.due(s) for s in SENDERS} == due
        assert (mailbox.came(), mailbox.complete()) == (len(rounds), len(rounds) == len(now.expect))
        assert all(mailbox.count_waiting(s) == len(left[s]) for s in SENDERS)
        if event == "collect":
            inbox = mailbox.collect()
            assert inbox == {s: left[s][r] for s, r in rounds.items()}
            assert inbox.rounds == rounds
            taken |= rounds
        assert {s: mailbox.taken(s) for s in SENDERS} == taken


@pytest.mark.parametrize("sender", SENDERS)
@given(st.permutations(list(range(8)) * 2))
def test_in_whatever_order_they_come_all_are_handed_over_in_theirs(sender, order):
    mailbox, said = Mailbox(), []
    for at in order:
        mailbox.keep_message(sender, at, at)
    for at in range(8):
        mailbox.wait(Exchange({}, (sender,), round=at))
        said.append(mailbox.collect()[sender])
    assert said == list(range(8))
    assert mailbox.count_waiting(sender) == 0


def test_a_run_in_which_all_but_one_are_lost_is_none():
    def waits(peer):
        yield Exchange({}, (peer,), round=1)
        raise TooFewReplies(1, ())

    def ends():
        yield Exchange({}, (), round=1)

    assert set(simulate({"a": waits("b"), "b": ends(), "c": ends()}).silent) == {"a"}
    with pytest.raises(TooFewReplies):
        simulate({"a": waits("b"), "b": waits("a"), "c": ends()})
