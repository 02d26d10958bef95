"""Text that begins like a template is named with its place, and never lost in silence."""

import pytest

from tests.builders.documents import faults, parse
from web.children import Exceeded, children

HEAD = """\
workflow:
  name: train
  tasks:
    - name: one
      image: busybox
      command: [bash, /run.sh]
"""
SCRIPT = HEAD + "      files:\n        - path: /run.sh\n          contents: |\n"
"""Its contents begin in line 10, column 13."""

KEEP = "put it between {% raw %} and {% endraw %}, or send the file with base64: true"


def script(text):
    return SCRIPT + "".join(f"            {line}\n" for line in text.splitlines())


def warnings(text, **options):
    return [notice.message for notice in parse(text, **options).warnings]


BROKEN = {
    "the length of an array": ('echo "${#a[@]}"', 20, '"{#" in line 11 begins a Jinja comment that never'),
    "the length of a variable": ("echo ${#HOME}", 19, '"{#" in line 11 begins a Jinja comment that never'),
    "a format of printf": (r"printf '{%s}\n' a", 21, '"{%" in line 11 begins a Jinja statement, "{%s}'),
    "a format of date": ("date '+{%F %T}'", 20, "that cannot be read: Encountered unknown tag 'F'"),
    "a format of curl": ("curl -w '{%{http_code}}' u", 22, '"{%" in line 11 begins a Jinja statement'),
    "a field of Go": ("docker ps --format '{{.Names}}'", 33, '"{{" in line 11 begins a Jinja expression'),
    "a loop of Go": ("echo '{{range .Items}}{{end}}'", 19, "that fails: 'function object' has no"),
    "a variable of Go": ("echo '{{ $x }}'", 19, "that cannot be read: unexpected char '$'"),
    "a function of Helm": ('echo \'{{ include "a" . }}\'', 19, "that cannot be read"),
    "a filter of Helm": ("echo '{{ 1 | toYaml }}'", 19, "No filter named 'toYaml'"),
    "a secret of GitHub": ("echo ${{ secrets.KEY }}", 19, 'whose variable "secrets" has no value; --set'),
    "a pair of braces of Python": ("print(f'{{x}}')", 21, '"{{" in line 11 begins a Jinja expression, "{{x'),
    "a program of awk": ("awk '{# one\n{n++}'", 18, "comment that never ends"),
    "an expression that fails": ("echo {{ 1 // 0 }}", 18, "that fails: integer division or modulo by zero"),
    "a loop without end": ("{% for a in [1] %}", 13, "that nothing ends: Unexpected end of template"),
    "a block without an end": ("{% set a|replace('=', '') %}", 13, "Unexpected end of template"),
    "raw text without an end": ("{% raw %} ${#a}", 13, '"{% raw %}", that no {% endraw %} follows'),
    "an end without a loop": ("{% endfor %}", 13, "that cannot be read: Encountered unknown tag 'endfor'"),
}  # fmt: skip


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(("text", "column", "want"), BROKEN.values(), ids=BROKEN)
def test_text_that_is_no_template_is_refused_with_its_characters_and_the_way_out(text, column, want, ending):
    (fault, *_) = faults(script(f"set -e\n{text}").replace("\n", ending))
    assert (fault.code, fault.line, fault.column) == ("template", 11, column)
    assert want in fault.message
    assert KEEP in fault.message


def test_every_mark_that_cannot_be_read_is_reported():
    text = "\n".join(
        text
        for text, _, _ in BROKEN.values()
        if "endfor" not in text and "1 // 0" not in text and "raw" not in text
    )
    places = [(fault.line, fault.column) for fault in faults(script(text))]
    assert [line for line, _ in places if line in {10, 11, 12, 13, 15}] == [10, 11, 12, 13, 15]


def test_every_variable_without_a_value_is_reported_where_it_is_used():
    text = "echo ${{ secrets.KEY }}\necho ${{ matrix.os }} {{ a|default(1) }}{% if b is defined %}{% endif %}"
    assert [(fault.line, fault.message.partition("variable ")[2][:9]) for fault in faults(script(text))] == [
        (10, '"secrets"'),
        (11, '"matrix" '),
    ]


TWICE = "{% if false %}\nworkflow: 2\n{% endif %}\n"
"""A key that stands twice only in what is not rendered."""

REMOVED = {
    "lines of a file": script('n=${#hosts[@]}\ntrain --all\necho "end #}"'),
    "lines of a folded file": script('n=${#a}\necho "end #}"').replace("|\n", ">-\n"),
    "a part of a line": script("awk '{# all #}{print}'"),
    "a line of its own": script("a\n{# note #}\nb"),
    "lines that whitespace control takes": script("a\n{#- note -#}\nb"),
    "a line of a file of another task": script("n=${#a}") + script("n={#a#}").partition("tasks:\n")[2],
    "an argument": HEAD + "      args: [-c, 'echo ${#a} ${#b#}']\n",
    "a command": HEAD.replace("/run.sh]", "-c, '${#a#}']"),
    "arguments in a block": HEAD
    + "      args:\n        - |\n          n=${#a}\n          b\n          c #}\n",
    "a file beside a statement": script("a {# b #}") + "{% if true %}\n  timeout: {}\n{% endif %}\n",
    "an argument beside a key that a statement leaves out": HEAD
    + "      args:\n        - |\n          a {# gone\n          rm y #}\n"
    + TWICE,
    "a line of its own beside such a key": script("a\n{#- gone\nrm y -#}\nb") + TWICE,
}


@pytest.mark.parametrize("text", REMOVED.values(), ids=REMOVED)
def test_a_comment_that_takes_text_out_of_a_script_is_refused(text):
    (fault,) = faults(text)
    assert "begins a Jinja comment that removes text of a script" in fault.message
    assert text.splitlines()[fault.line - 1][fault.column - 1 :].startswith("{#")
    assert KEEP in fault.message


def test_a_comment_that_takes_text_out_of_a_script_is_refused_below_a_comment_after_quotes():
    text = script("a {# gone\nrm y #}").replace("busybox", '"busybox" {# ours #}')
    for ending in ("", TWICE):
        assert [fault.line for fault in faults(text + ending)] == [10]


def test_comments_beside_scripts_are_ones_where_a_statement_leaves_out_a_key():
    text = HEAD.replace("busybox", '"busybox" {# ours\n and theirs #}') + "{# below\n the tasks #}\n" + TWICE
    assert len(warnings(text)) == 1


def test_a_comment_in_a_script_of_a_template_with_variables_is_one():
    text = script("echo {{ a }} {# note #}")
    assert warnings(text, variables=["a=1"]) == []
    assert warnings("default-values: {a: 1}\n" + text) == []
    (warning,) = warnings(script("n=${# x #}\necho {{ a }}"), variables=["a=1"])
    assert '"{# x #}" in line 10 is removed as a comment' in warning


CHANGED = {
    "a comment above": ("{# ours #}\n" + HEAD, '"{# ours #}" in line 1 is removed as a comment'),
    "a comment in a variable": (
        HEAD + "      environment: {A: 'a{# b #}c'}\n", '"{# b #}" in line 7 is removed as a comment',
    ),
    "a text": (script("echo {{ 'a' }}"), """"{{ 'a' }}" in line 10 becomes "a\""""),
    "a function of Jinja": (script("echo '{{range}}'"), '"{{range}}" in line 10 is replaced by its value'),
    "a line of Go": (script("""docker ps -f '{{"a"}}'"""), '"{{"a"}}" in line 10 becomes "a"'),
    "a statement": (script("{% if true %}\na\n{% endif %}"), '"{% if true %}" in line 10 is carried out'),
    "a variable of a loop": (script("{% for a in [1] %}{{ a }}{% endfor %}"), "is replaced by its value"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), CHANGED.values(), ids=CHANGED)
def test_what_was_read_as_a_template_without_variables_is_a_warning(text, want):
    (warning,) = warnings(text)
    assert warning.startswith("The text is read as a template, though no variable is set: ")
    assert want in warning
    assert KEEP in warning


def test_a_warning_names_the_first_marks_and_counts_the_others():
    (warning,) = warnings(script("{{ 1 }}\n" * 8))
    assert '; "{{ 1 }}" in line 14 becomes "1", and 3 more. ' in warning


def test_raw_text_tokens_for_later_and_base64_are_left_alone():
    text = "{% raw %}${#a[@]}\n{{.Names}} {# x #}{% endraw %}\n{{uuid}} {{host:one}} {{{uuid}}}"
    spec = parse(script(text))
    assert [notice.message for notice in spec.warnings] == []
    assert (
        spec.groups[0].tasks[0].files[0].contents
        == "${#a[@]}\n{{.Names}} {# x #}\n{{uuid}} {{host:one}} {{{uuid}}}\n"
    )


UNKNOWN = {
    "a misspelled name": ("name: {{ image }}", ["imge=a"], 'no variable "imge". Did you mean "image"?'),
    "a name of a loop": ("name: {% for i in [image] %}{{ i }}{% endfor %}", ["i=a"], 'no variable "i".'),
    "a name in raw text": ("name: {{ image }}{% raw %}{{ a }}{% endraw %}", ["a=a"], 'no variable "a".'),
    "a document that is no template": ("name: x", ["a=1"], "the text has no variables"),
    "a token for later": ("name: x{{uuid}}", ["uuid=1"], "the text has no variables"),
}


@pytest.mark.parametrize("source", ["variables", "string_variables"])
@pytest.mark.parametrize(("line", "values", "want"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_variable_that_the_template_does_not_have_is_refused(line, values, want, source):
    text = HEAD.replace("name: train", line)
    default = "default-values: {image: 1}\n" if "{{ image" in text or "[image" in text else ""
    fault, *_ = faults(default + text, **{source: values})
    assert fault.path == (f"set_{source}", 0)
    assert want in fault.message


KNOWN = {
    "one that is used": "name: {{ a }}",
    "one that may be left out": "name: x{{ a|default('b') }}",
    "one that is tested": "name: x{% if a is defined %}y{% endif %}",
    "one that the template overrides": "name: {% set a = a|default('b') %}{{ a }}",
    "one with a default": "name: x",
}


@pytest.mark.parametrize("line", KNOWN.values(), ids=KNOWN)
def test_a_variable_that_the_template_has_is_accepted(line):
    text = HEAD.replace("name: train", line)
    text += "default-values: {a: b}\n" if line == "name: x" else ""
    assert parse(text, string_variables=["a=b"]).faults == ()


def test_a_variable_may_have_the_name_of_a_function_of_jinja():
    text = HEAD.replace("name: train", "name: {{ namespace }}")
    assert parse(text, variables=["namespace=ours"]).name == "ours"


def test_a_value_of_a_variable_that_is_read_as_another_gets_a_warning():
    text = HEAD + "      environment: {V: '{{ v }}', W: '{{ w }}', X: '{{ x }}'}\n"
    default = "default-values:\n  v: 3.10\n  w: 1\n  x: true\n"
    (warning,) = warnings(default + text)
    assert warning.startswith("Line 2: default-values.v is written 3.10, which YAML 1.1 reads as 3.1.")
    (warning,) = warnings(default.replace("3.10", "a") + text, variables=["w=0755"])
    assert warning == "w=0755 sets the number 755. --set-string keeps what is written."
    assert warnings(default.replace("3.10", "a") + text, string_variables=["w=0755"]) == []


def test_raw_text_that_begins_beside_the_field_keeps_its_first_line():
    spec = parse(script("#!/bin/bash\necho ${#a}{% endraw %}").replace("contents: |", "contents: |{% raw %}"))
    assert spec.groups[0].tasks[0].files[0].contents == "#!/bin/bash\necho ${#a}\n"


LOOP = """\
{% for i in [1, 2] %}
    - {name: 'a{{ i }}',
       image: i,
       command: [c]}
{% endfor %}
"""
MOVED = {
    "default values above": "default-values:\n  n: 2\n" + HEAD.replace("[bash,", "[bash, {{ n }},"),
    "a comment of several lines": "{# one\n two #}\n" + HEAD,
    "a loop": HEAD.replace("tasks:\n", f"tasks:\n{LOOP}"),
    "lines without whitespace": HEAD.replace("tasks:\n", "tasks:\n    {%- if true %}\n    {%- endif %}\n"),
    "a statement of several lines": "{% set a =\n 1 %}\n" + HEAD,
    "raw text": HEAD.replace("/run.sh", "'{% raw %}\n          {{ a }}\n          {% endraw %}'"),
}


@pytest.mark.parametrize("text", MOVED.values(), ids=MOVED)
def test_lines_of_warnings_and_faults_are_those_of_the_file(text):
    environment = "      environment: {MODE: 0755}\n"
    line = (text + environment).splitlines().index(environment.rstrip()) + 1
    assert any(f"Line {line}: workflow.tasks[" in warning for warning in warnings(text + environment))
    assert faults(text + environment.replace("MODE", "A b"))[0].line == line
    assert faults(text + environment.replace("}", "]"))[0].line in {line, line + 1}
    large = "  # " + "x" * 20_000 + "\n" + environment.replace("MODE", "A b")
    assert faults(text + large)[0].line == line + 1


def test_a_variable_too_many_is_reported_beside_the_faults_of_the_document():
    for wrong in ("    - {name: 9}\n", "      files: {\n"):
        paths = {fault.path for fault in faults(HEAD + wrong, variables=["a=1"])}
        assert ("set_variables", 0) in paths
        assert len(paths) > 1


def test_a_template_is_rendered_once_unless_a_line_is_needed(monkeypatch):
    jobs = []
    run = children().run
    monkeypatch.setattr(children(), "run", lambda job, *of: (jobs.append(job.__name__), run(job, *of))[1])
    spec = parse(HEAD.replace("train", "train-{{ a }}"), variables=["a=x"])
    assert jobs == ["render_job"]
    spec.places.locate_all([("workflow",), ("workflow", "name")])
    spec.places.locate_all([("workflow",)])
    assert jobs == ["render_job", "lines_job"]


def test_a_template_may_need_the_whole_time_of_a_rendering_and_still_have_a_fault(monkeypatch):
    def only_the_first(job, *of):
        if job.__name__ == "lines_job":
            raise Exceeded("cpu", "it needs over 2 s of CPU")
        return run(job, *of)

    run = children().run
    monkeypatch.setattr(children(), "run", only_the_first)
    text = HEAD.replace("train", "train-{{ a }}") + "      environment: {A b: c}\n"
    (fault,) = faults(text, variables=["a=x"])
    assert (fault.code, fault.line) == ("variable", 7)
