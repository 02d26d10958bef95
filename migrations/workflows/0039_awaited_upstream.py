from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    """By which the end of a group finds those that await it, and a workflow the statuses of its groups."""

    atomic = False

    dependencies = [
        ('workflows', '0038_task_holds_node'),
    ]

    operations = [
        migrations.AddField(
            model_name='taskgroup',
            name='awaited_upstream',
            field=models.UUIDField(help_text='The upstream group, not ended yet, whose end makes it due (services.follow_up).', null=True),
        ),
        BuildIndex(
            model_name='taskgroup',
            index=models.Index(fields=['workflow', 'status'], name='taskgroup_statuses'),
        ),
        BuildIndex(
            model_name='taskgroup',
            index=models.Index(
                condition=models.Q(('awaited_upstream__isnull', False), ('released_at', None)),
                fields=['awaited_upstream'],
                name='taskgroup_awaits',
            ),
        ),
    ]
