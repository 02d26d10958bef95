import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='InstalledRelease',
            fields=[
                ('version', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('migrated_at', models.DateTimeField(null=True)),
                ('worked_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='PersonalToken',
            fields=[
                ('digest', models.CharField(max_length=128, primary_key=True, serialize=False)),
                ('token_key', models.CharField(db_index=True, max_length=25)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('expiry', models.DateTimeField(blank=True, null=True)),
                ('name', models.CharField(blank=True, default='', max_length=63)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='auth_token_set', to=settings.AUTH_USER_MODEL)),
                ('made_with', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='descendants', to=settings.KNOX_TOKEN_MODEL)),
            ],
            options={
                'ordering': ['user_id', 'created'],
                'swappable': 'KNOX_TOKEN_MODEL',
            },
        ),
        migrations.CreateModel(
            name='Profile',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='profile', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('pool', models.CharField(blank=True, default='', max_length=63)),
            ],
        ),
        migrations.CreateModel(
            name='ProviderIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('issuer', models.CharField(max_length=255)),
                ('subject', models.CharField(max_length=255)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='identities', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'provider identities',
                'ordering': ['user_id', 'issuer', 'subject'],
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='identity_of_one_user')],
            },
        ),
        migrations.CreateModel(
            name='RateBucket',
            fields=[
                ('key', models.CharField(max_length=255, primary_key=True, serialize=False)),
                ('clear_at', models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='Role',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=128, unique=True, validators=[django.core.validators.RegexValidator('^(?:[a-zA-Z]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?)\\Z', 'A letter, then letters, digits, dots, dashes and underscores, the last a letter or a digit.')])),
                ('description', models.TextField(blank=True, default='')),
                ('policies', models.JSONField(default=list, help_text='[{"actions": ["workflow:*"], "resources": ["pool/train"]}]')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name', 'osmo-admin'), _negated=True), name='role_admin_is_built_in')],
            },
        ),
        migrations.CreateModel(
            name='RoleAssignment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator('^(?:[a-zA-Z]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?)\\Z', 'A letter, then letters, digits, dots, dashes and underscores, the last a letter or a digit.')])),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='role_assignments', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['user_id', 'role'],
                'constraints': [models.UniqueConstraint(fields=('user', 'role'), name='role_once_per_user')],
            },
        ),
    ]
