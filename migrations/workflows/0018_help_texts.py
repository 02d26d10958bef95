"""Help texts alone, so no table changes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0017_placement_result_field'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='task',
                    name='log_try_at',
                    field=models.DateTimeField(help_text='Until then its log is being read, or the next try waits.', null=True),
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='created_in_cluster_at',
                    field=models.DateTimeField(help_text='When all its objects existed.', null=True),
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='failures',
                    field=models.PositiveIntegerField(default=0, help_text='Reconciliations in a row that failed.'),
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='placement',
                    field=models.JSONField(help_text='Frozen at submission; see workflows.values.placement.'),
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='unplaced_since',
                    field=models.DateTimeField(help_text='Since when all its pods exist without a node; patience counts from it.', null=True),
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='waiting_evidence',
                    field=models.JSONField(db_default={}, default=dict, help_text='Facts behind the reason; see workflows.explain.reasons.'),
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='waiting_why',
                    field=models.CharField(blank=True, db_default='', default='', help_text='Code of the reason: workflows.explain.reasons.Why.', max_length=32),
                ),
                migrations.AlterField(
                    model_name='workflow',
                    name='env_vars',
                    field=models.JSONField(db_default=[], default=list, help_text="NAME=value texts, laid over every task's environment."),
                ),
                migrations.AlterField(
                    model_name='workflow',
                    name='parent_job_id',
                    field=models.PositiveIntegerField(help_text='Number of the workflow that it restarts.', null=True),
                ),
                migrations.AlterField(
                    model_name='workflow',
                    name='parent_name',
                    field=models.CharField(blank=True, db_default='', default='', help_text='Base name of the workflow that it restarts.', max_length=64),
                ),
                migrations.AlterField(
                    model_name='workflow',
                    name='pool_name',
                    field=models.CharField(help_text='Name of its pool at submission.', max_length=63),
                ),
                migrations.AlterField(
                    model_name='workflow',
                    name='pool_revision',
                    field=models.PositiveIntegerField(help_text='ConfigRevision of its pool at submission.'),
                ),
                migrations.AlterField(
                    model_name='workflow',
                    name='reply',
                    field=models.JSONField(default=dict, help_text='Reply to the submission; sent again if the request is repeated.'),
                ),
                migrations.AlterField(
                    model_name='workflow',
                    name='spec',
                    field=models.TextField(help_text='As parsed; rendered, if it was templated.'),
                ),
            ],
        ),
    ]
