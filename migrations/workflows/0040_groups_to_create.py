from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    """By which a submission counts the groups that workers must create beside those that wait for others."""

    atomic = False

    dependencies = [
        ('workflows', '0039_awaited_upstream'),
    ]

    operations = [
        BuildIndex(
            model_name='taskgroup',
            index=models.Index(condition=models.Q(('created_in_cluster_at', None), ('released_at', None), ('status', 'PROCESSING')), fields=['workflow'], name='taskgroup_to_create'),
        ),
        RemoveIndexConcurrently(
            model_name='taskgroup',
            name='taskgroup_backlog',
        ),
    ]
