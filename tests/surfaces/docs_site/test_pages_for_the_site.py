"""What the hooks of the site do to a page: lists, links, navigation, llms.txt. MkDocs is not needed."""

from __future__ import annotations

import pytest

from tools.docs_site.github_markdown import adapt_markdown
from tools.docs_site.llms import SitePage, first_sentence, page_list, page_texts, text_of_html
from tools.docs_site.navigation import complete_nav, pages_of_folder
from tools.docs_site.repository_links import adapt_links


@pytest.mark.parametrize(
    ("given", "adapted"),
    [
        ("Text:\n- one\n- two", "Text:\n\n- one\n- two"),
        ("Text:\n| a |\n|---|\n| b |", "Text:\n\n| a |\n|---|\n| b |"),
        ("- one\n  more\n- two\n\nText", "- one\n    more\n- two\n\nText"),
        ("- one\n  - inner\n    - deepest\n- two", "- one\n    - inner\n        - deepest\n- two"),
        ("1. one\n   - inner\n2. two", "1. one\n    - inner\n2. two"),
        (
            "1. one\n\n   ```sh\n   a\n     b\n\n   c\n   ```\n2. two",
            "1. one\n\n    ```sh\n    a\n      b\n\n    c\n    ```\n2. two",
        ),
        ("- one\ncontinued", "- one\ncontinued"),
        ("- one\n# Heading", "- one\n# Heading"),
        ("```\ntext\n- no list\n| no table\n```", "```\ntext\n- no list\n| no table\n```"),
        ("Text\n\n    code\n    - code", "Text\n\n    code\n    - code"),
    ],
)
def test_lists_and_tables_are_as_on_github(given: str, adapted: str) -> None:
    assert adapt_markdown(given) == adapted


@pytest.mark.parametrize(
    ("page", "given", "adapted"),
    [
        ("gateway.md", "[a](client.md#b)", "[a](client.md#b)"),
        ("gateway.md", "[a](#b) [c](https://example.com/d.md)", "[a](#b) [c](https://example.com/d.md)"),
        ("gateway.md", "[a](../CHANGELOG.md#b)", "[a](changelog.md#b)"),
        ("decisions/one.md", "[a](../../CHANGELOG.md) [b](../client.md)", "[a](../changelog.md) [b](../client.md)"),
        ("changelog.md", "[a](docs/client.md#b) [c](docs/decisions)", "[a](client.md#b) [c](decisions/README.md)"),
        ("gateway.md", "![a](pictures/b.png)", "![a](pictures/b.png)"),
        ("gateway.md", "see [`a`](../examples/a.py).", "see `a`."),
        ("gateway.md", "`[a](../examples/a.py)`", "`[a](../examples/a.py)`"),
        ("gateway.md", "```\n[a](../examples/a.py)\n```", "```\n[a](../examples/a.py)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, given: str, adapted: str) -> None:
    assert adapt_links(given, page, lambda _: "") == adapted


def test_a_file_outside_the_docs_is_linked_where_its_address_is_known() -> None:
    linked = adapt_links("[a](../examples/a.py)", "gateway.md", "https://example.com/{}".format)
    assert linked == "[a](https://example.com/examples/a.py)"


def test_a_folder_follows_its_index() -> None:
    pages = ["t/README.md", "t/a.md", "t/b.md", "t/c.md", "t/below/d.md", "e.md"]
    assert pages_of_folder("t/", pages, lambda _: "[c](c.md#x) [e](../e.md) [b](b.md) [b](b.md)") == [
        "t/README.md",
        "t/c.md",
        "t/b.md",
        "t/a.md",
    ]
    assert pages_of_folder("t/", ["t/b.md", "t/a.md"], lambda _: "") == ["t/a.md", "t/b.md"]


def test_every_page_has_a_place() -> None:
    nav = [{"Start": ["README.md", "tour.md?"]}, {"Guides": "guides/"}, {"None": "none/"}, {"Project": ["last.md"]}]
    found = complete_nav(nav, {"README.md", "guides/a.md", "last.md", "new.md"}, lambda _: "")
    assert found == [{"Start": ["README.md"]}, {"Guides": ["guides/a.md"]}, {"Project": ["last.md", "new.md"]}]


def test_llms_txt_lists_the_pages_by_section() -> None:
    home = SitePage("Start", "penstock", "README.md", "index.html", "# penstock\n\n| [a](a.md) | what [A](x.md) is |\n")
    pages = [
        home,
        SitePage("Start", "A", "a.md", "a.html", ""),
        SitePage("Guides", "B", "b.md", "b.html", "# B\n\nIt is b. More."),
    ]
    assert page_list("penstock", "Streams.", pages) == (
        "# penstock\n\n> Streams.\n\n## Start\n\n- [penstock](index.html)\n- [A](a.html): what A is\n"
        "\n## Guides\n\n- [B](b.html): It is b.\n"
    )
    assert page_texts(pages[2:]) == "<!-- b.html -->\n\n# B\n\nIt is b. More.\n"


def test_the_first_sentence_is_prose() -> None:
    assert (
        first_sentence("# T\n\n```python\nx = 1\n\ny = 2\n```\n\n| a |\n\nSee [it](x.md), now. Then") == "See it, now."
    )
    assert first_sentence("# T\n\n| a |") == ""
    assert first_sentence("# T\n\n`translate` turns one into another. Then") == "`translate` turns one into another."


def test_the_text_of_html_has_no_tags() -> None:
    html = '<h2>Name<a class="headerlink" href="#n">¶</a></h2><p>It <em>is</em> &lt;one&gt;.</p><script>no()</script><p>End</p>'
    assert text_of_html(html) == "Name\nIt is <one>.\nEnd"
