"""Users, the roles they hold, and their tokens, in the admin.

Django's own permissions guard these pages: superusers have them, other staff only if given them one by
one, because who may assign roles may take every role.
"""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from web.access.rights import unknown_role
from web.models import MOST_ROLES, PersonalToken, ProviderIdentity, Role, RoleAssignment


class RoleAssignmentForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """A role, by its name; one that would grant nothing is a mistake."""

    class Meta:
        model = RoleAssignment
        fields = ("role",)

    def clean_role(self) -> str:
        role = str(self.cleaned_data["role"])
        if fault := unknown_role(role):
            raise ValidationError(fault)
        return role


class RoleAssignmentFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]  # not subscriptable at run time
    """The roles of a user; more than may be assigned are refused."""

    default_error_messages = {"too_many_forms": f"A user is assigned at most {MOST_ROLES} roles."}


class RoleAssignmentInline(TabularInline):  # type: ignore[misc]  # unfold has no types
    model = RoleAssignment
    form = RoleAssignmentForm
    formset = RoleAssignmentFormSet
    extra = 0
    max_num = MOST_ROLES

    def get_formset(self, request: HttpRequest, obj: Any = None, **options: Any) -> Any:
        return super().get_formset(request, obj, **options, validate_max=True)


class ProviderIdentityInline(TabularInline):  # type: ignore[misc]  # unfold has no types
    """Which identities of the identity provider log in as this user."""

    model = ProviderIdentity
    fields = ("issuer", "subject")
    extra = 0


admin.site.unregister(User)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[misc,type-arg]  # unfold has no types
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    inlines = (RoleAssignmentInline, ProviderIdentityInline)


@admin.register(Role)
class RoleAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_display = ("name", "description")
    search_fields = ("name", "description")


@admin.register(PersonalToken)
class PersonalTokenAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Show and revoke tokens. The digest is hidden, and no one can create a token for another user."""

    list_display = ("user", "name", "created", "expiry")
    search_fields = ("user__username", "name")
    fields = list_display
    readonly_fields = fields
    list_select_related = ("user",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        del request, obj
        return False
