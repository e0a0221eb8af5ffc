"""Lists a page at a time."""

import base64

import pytest

from service.errors import InvalidRequest
from service.rpc.pages import MAX_PAGE_SIZE, page

NAMES = [f"model-{i}" for i in range(7)]


@pytest.mark.parametrize("size", range(1, 9))
def test_pages_one_after_the_other_are_the_list(size):
    seen, token, pages = [], "", 0
    while True:
        found = page(NAMES, size, token)
        seen += NAMES[found.start : found.end]
        pages += 1
        token = found.next_token
        if not token:
            break
    assert seen == NAMES
    assert pages == -(-len(NAMES) // size)


def test_a_size_of_zero_and_one_beyond_the_most_are_the_servers_choice():
    many = [str(i) for i in range(MAX_PAGE_SIZE + 1)]
    for size in (0, MAX_PAGE_SIZE, 1 << 30):
        assert page(many, size, "").end == MAX_PAGE_SIZE


def forged(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "token",
    ["x", "é", "====", forged("2"), forged("2:0"), forged("0:0"), forged("-1:x"), forged("9:x")],
)
def test_a_token_that_was_not_given_is_refused(token):
    with pytest.raises(InvalidRequest) as caught:
        page(NAMES, 2, token)
    assert caught.value.field == "page_token"


def test_a_token_of_another_list_is_refused():
    token = page(NAMES, 2, "").next_token
    with pytest.raises(InvalidRequest):
        page([*NAMES, "new"], 2, token)


def test_an_empty_list_has_one_empty_page():
    assert page([], 5, "") == (0, 0, "")
