"""Hostile and templated text: bounded in size, depth, aliases, memory and time."""

from dataclasses import replace

import pytest

from pools.documents.yaml_text import parse_document
from scheduling.errors import InvalidSpec
from workflows.spec import template
from workflows.spec.limits import SpecLimits
from workflows.spec.rendering import TemplateText
from workflows.spec.template import is_templated, render

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(12)
)

HOSTILE = {
    "an alias bomb": (BOMB, "too_large"),
    "a long text under many aliases": ("a: &a " + "x" * 400_000 + "\nb: [" + "*a," * 300 + "]", "too_large"),
    "a long text in a mapping under many aliases": (
        "a: &a {v: " + "x" * 400_000 + "}\nb: [" + "*a," * 300 + "]",
        "too_large",
    ),
    "too many aliases": ("a: &a x\nb: [" + "*a," * 30000 + "]", "too_many_aliases"),
    "nesting without end": ("[" * 5000, "too_deep"),
    "a mapping in a mapping without end": ("{a: " * 500, "too_deep"),
    "a document too long": ("a: " + "x" * 9_000_000, "too_large"),
    "an object of Python": ("a: !!python/object/apply:os.system [ls]", "yaml_tag"),
    "a directive about tags": ("%YAML 1.1\n%TAG ! tag:x,1:\n---\na: 1", "yaml_tag"),
    "many directives about tags": ("".join(f"%TAG !a{i}! b\n" for i in range(200_000)), "yaml_tag"),
    "the character NUL, escaped": ('a: "\\0"', "yaml_character"),
    "a list too long": ("a: [" + "1," * 30_000 + "]", "too_large"),
    "a binary": ("a: !!binary aGk=", "yaml_tag"),
    "a key twice": ("a: 1\na: 2", "duplicate_key"),
    "a list as a key": ("? [a]\n: b", "yaml_key"),
    "an alias of nothing": ("a: *b", "yaml_alias"),
    "an alias of itself": ("a: &a [*a]", "yaml_alias"),
    "two documents": ("a: 1\n---\nb: 1", "yaml_documents"),
    "a control character": ("a: \x01", "yaml_character"),
    "half a surrogate pair": ("a: \ud800", "yaml_character"),
    "a broken flow": ("a: [1, 2", "yaml_syntax"),
    "a merge of a word": ("a:\n  <<: x", "yaml_merge"),
}


@pytest.mark.parametrize(("text", "code"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_with_a_place(text, code):
    with pytest.raises(InvalidSpec) as refused:
        parse_document(text, limits=SpecLimits())
    (fault,) = refused.value.faults
    assert fault.code == code
    assert fault.line >= 1
    assert fault.column >= 1


def test_scalars_read_as_yaml_1_1_but_dates_stay_text():
    text = "{a: 0x10, b: yes, c: ~, d: 1_000, e: 2024-01-01, f: '1', g: 1.5, h: 010}"
    want = {"a": 16, "b": True, "c": None, "d": 1000, "e": "2024-01-01", "f": "1", "g": 1.5, "h": 8}
    assert parse_document(text, limits=SpecLimits()).data == want


def test_a_merge_gives_way_to_what_the_mapping_says_itself():
    text = "base: &b {x: 1, y: 2}\nhere:\n  <<: *b\n  y: 3\n"
    document = parse_document(text, limits=SpecLimits())
    assert document.data["here"] == {"x": 1, "y": 3}
    assert document.locate(("here", "x")) == (1, 11)
    assert document.locate(("here", "y")) == (4, 3)


def rendered(text, *, variables=(), string_variables=(), limits=None):
    limits = limits or SpecLimits()
    return render(
        TemplateText(text=text, variables=variables, string_variables=string_variables, limits=limits)
    ).text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: {{ x }}", True),
        ("{% if x %}{% endif %}", True),
        ("{# note #}", True),
        ("default-values:\n  x: 1\n", True),
        ("a: {{host:lead}} {{uuid}} {{input:0}}", False),
        ("a: {b: 1}", False),
    ],
)
def test_text_is_templated_if_there_is_anything_to_render_now(text, want):
    assert is_templated(text) is want


def test_tokens_for_later_survive_the_rendering():
    text = "a: {{ x }} {{host:lead}} {{workflow_id}}"
    assert rendered(text, variables=["x=1"]) == "a: 1 {{host:lead}} {{workflow_id}}"


def test_given_variables_win_over_default_values():
    text = "default-values:\n  x: 1\n  y: b\nworkflow: {{ x }}{{ y }}\n"
    assert rendered(text, variables=["x=2"]) == "workflow: 2b\n"


def test_a_variable_is_a_number_where_it_looks_like_one_unless_told_otherwise():
    text = "{{ a + 1 }} {{ b * 2 }} {{ c + 'x' }}"
    assert rendered(text, variables=["a=1", "b=1.5"], string_variables=["c=1"]) == "2 3.0 1x"


TEMPLATES = {
    "an undefined variable": "a: {{ nothing }}",
    "a loop without end": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "output without end": "{% for a in range(99999) %}{{ 'y' * 1000 }}{% endfor %}",
    "more memory than there is": "{{ 'x' * 10**10 }}",
    "a way out of the sandbox": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "a file to include": "{% include '/etc/passwd' %}",
    "broken syntax": "{% if %}",
    "a division by zero": "{{ 1 / 0 }}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
}


@pytest.mark.parametrize("text", TEMPLATES.values(), ids=TEMPLATES.keys())
def test_a_template_that_cannot_be_rendered_is_refused(text, monkeypatch):
    monkeypatch.setattr(template, "BOUNDS", replace(template.BOUNDS, seconds=1.0))
    with pytest.raises(InvalidSpec) as refused:
        rendered(text)
    assert refused.value.faults[0].code == "template"


ESCAPES = {
    "an attribute by filter": "{{ ''|attr('__class__') }}",
    "an attribute by index": "{{ ''['__class__'] }}",
    "an attribute in escapes": r"{{ ''['\x5f\x5fclass\x5f\x5f'] }}",
    "the globals of the template": "{{ self.__init__.__globals__ }}",
    "the globals of a function": "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "the globals of a class": "{{ cycler.__init__.__globals__ }}",
    "the order of a class's bases": "{{ dict.mro() }}",
    "the frame of a generator": "{{ (['a']|map('upper')).gi_frame.f_globals }}",
    "an attribute by format": "{{ '{0.__class__}'.format('') }}",
    "an attribute by format of a mapping": "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "a method kept for later": "{% set f = '{0.__class__}'.format %}{{ f('') }}",
    "a change of what is shared": "{{ [].append(1) }}",
    "a file to import": "{% import '/etc/passwd' as x %}",
    "a file to extend": "{% extends '/etc/passwd' %}",
    "a range that is no end": "{{ range(10**9)|list }}",
    "a field a gigabyte wide": "{{ '%1000000000s' % 'a' }}",
}


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES.keys())
def test_a_template_finds_no_way_out(text):
    with pytest.raises(InvalidSpec) as refused:
        rendered(text)
    assert refused.value.faults[0].code == "template"
    assert "<" not in refused.value.message.replace("<template>", "")  # the repr of anything inside


def test_a_template_that_maps_an_attribute_gets_nothing():
    assert rendered("{{ ['']|map(attribute='__class__')|list }}") == "[Undefined]"


def test_a_variable_without_a_value_is_refused_with_its_place():
    with pytest.raises(InvalidSpec) as refused:
        rendered("{{ x }}", variables=["x=1", "y"])
    assert [fault.path for fault in refused.value.faults] == [("set_variables", 1)]
