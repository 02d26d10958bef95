from django.db import migrations, models

from web.database.migrating import LockTables


class Migration(migrations.Migration):
    """An installation that is there already keeps everything until it is set otherwise."""

    dependencies = [
        ('pools', '0012_sweep_run'),
    ]

    operations = [
        LockTables('installation', 'pool'),
        migrations.AddField(
            model_name='installation',
            name='default_retention',
            field=models.BooleanField(db_default=False, default=True, editable=False, help_text='Whether old rows are removed by default: not in an installation from before retention.'),
        ),
        migrations.AddField(
            model_name='pool',
            name='ended_workflow_days',
            field=models.PositiveIntegerField(blank=True, help_text='Days for which its ended workflows are kept; 0: for ever; empty: OSMO_WORKFLOW_DAYS.', null=True),
        ),
    ]
