"""How the member that gets corrections has the next portion of them, where a comparison has several."""

from __future__ import annotations

from dataclasses import dataclass

from field.compare.tables import Hand
from secfc.coded.dealing_messages import Corrections, Ready
from secfc.coded.messages import Unheard
from secfc.coded.silence import NOBODY_MISSED
from secfc.disclosure.compare.hearing import heard
from secfc.disclosure.compare.match import Match, check_words
from secfc.roles.exchange import Exchange, PartyId, Role


@dataclass(eq=False, repr=False)
class Feed:
    """One member's; portions: words of each.  next: the number of the one that is next."""

    match: Match
    name: PartyId
    dealer: PartyId
    portions: tuple[int, ...]
    hand: Hand
    next: int = 1

    def __call__(self, step: int) -> Role[None]:
        """Ask the dealer for the next portion, and take it, if this member gets any.

        step: the last one of the answer.  Raises NothingHeardError of it.
        """
        match, number = self.match, self.next
        if self.name != match.corrected:
            return
        self.next += 1
        yield Exchange({self.dealer: Ready(number)}, round=match.asked_in(number), phase="compare")
        wait = Exchange({}, (self.dealer,), 0, round=match.given_in(number), phase="compare")
        told = (yield from heard(wait, Corrections, step))[self.dealer]
        self.hand.feed(check_words(self.dealer, told.words, (self.portions[number],)))


def asks_no_more(match: Match, name: PartyId) -> Role[None]:
    """Tell the dealer that no portion will be asked for, if I am the member that gets them."""
    dealer = match.seating.dealer
    if name == match.corrected and dealer is not None:
        for number in range(1, match.feeds + 1):
            told = Unheard(0, NOBODY_MISSED)
            yield Exchange({dealer: told}, round=match.asked_in(number), phase="compare")
