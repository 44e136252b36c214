"""Values that parties of one process share are computed once, and live as long as somebody holds them."""

import gc

from field.cached import SharedValues


class Value:
    pass


def test_one_computes_what_others_take_while_it_is_held():
    drawn = SharedValues()
    first = drawn.take("coins", Value)
    assert drawn.take("coins", Value) is first
    assert drawn.take("other coins", Value) is not first
    del first
    gc.collect()
    assert not drawn
    assert drawn.take("nothing is checked", lambda: None) is None
    assert not drawn
