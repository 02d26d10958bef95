"""Folding of groups of fields: open is one with a fault, or with another value than the default."""

from typing import Any

from django import template
from django.contrib.admin.utils import flatten
from django.core.exceptions import FieldDoesNotExist

register = template.Library()


@register.filter
def is_open(fieldset: Any) -> bool:
    """Whether a group tells something of this object that its heading does not."""
    form = fieldset.form
    return any(name in form.errors or _is_set(form, name) for name in flatten(fieldset.fields))


def _is_set(form: Any, name: str) -> bool:
    """Whether a field, to edit or to read, differs from its default as it stands."""
    try:
        default = form.instance._meta.get_field(name).get_default()  # noqa: SLF001 -- Django's documented name
    except FieldDoesNotExist:
        return False
    if name not in form.fields:  # shown to read
        return bool(getattr(form.instance, name) != default)
    return bool(form.fields[name].has_changed(default, form[name].value()))
