"""Resources that tags imply."""

from __future__ import annotations

import pytest

from louver.errors import ConfigurationError
from louver.resource_tags import ResourceTags


def test_each_tag_implies_what_is_said_of_it() -> None:
    tags = ResourceTags.parse(" payments = payments-api:2,batch=licence ,batch=db:3,")
    assert tags.implied(["payments"]) == {"payments-api": 2}
    assert tags.implied(["batch", "unknown"]) == {"licence": 1, "db": 3}
    assert tags.implied([]) == {}
    assert tags.tags_of("db") == ("batch",)


def test_of_a_resource_that_several_tags_imply_the_most_units_count() -> None:
    tags = ResourceTags.parse("small=db:1, large=db:3")
    assert tags.implied(["large", "small"]) == tags.implied(["small", "large"]) == {"db": 3}
    assert tags.tags_of("db") == ("large", "small")


def test_without_the_setting_no_tag_implies_anything() -> None:
    assert ResourceTags.parse("  ").implied(["payments"]) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("payments", "'payments' says no resource of a tag; write payments=payments-api:1, batch=licence"),
        ("=api", "'=api' says no resource of a tag"),
        ("a=", "'a=' says no resource of a tag"),
        ("a=api:", "'a=api:' says no resource of a tag"),
        ("a=api:0", "must be a whole number from 1 to 1000000"),
        ("a=api:x", "must be a whole number from 1 to 1000000"),
        ("a=two words", "'two words' cannot be a resource"),
        ("a=api, a=api:2", "'a=api:2': the tag has that resource already"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_words(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        ResourceTags.parse(text)
    assert words in str(refused.value)
