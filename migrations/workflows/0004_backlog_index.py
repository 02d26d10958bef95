from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    """The index by which a submission counts what waits; built beside the work, without a lock."""

    atomic = False

    dependencies = [
        ('workflows', '0003_touched_at'),
    ]

    operations = [
        BuildIndex(
            model_name='taskgroup',
            index=models.Index(condition=models.Q(('created_in_cluster_at', None), ('released_at', None), ('status__in', ['SUBMITTING', 'WAITING', 'PROCESSING'])), fields=['workflow'], name='taskgroup_backlog'),
        ),
    ]
