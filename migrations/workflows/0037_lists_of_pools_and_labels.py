from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations, models

from web.database.migrating import BuildIndex, SampleMore


class Migration(migrations.Migration):
    """What the page of a pool and lists by a label need in a million workflows; built without a lock."""

    atomic = False

    dependencies = [
        ('workflows', '0036_list_indexes'),
    ]

    operations = [
        BuildIndex(
            model_name='workflow',
            index=models.Index(fields=['pool_name', '-submit_time'], include=['uuid'], name='workflow_in_pool'),
        ),
        RemoveIndexConcurrently(
            model_name='workflow',
            name='workflow_of_pool',
        ),
        SampleMore('workflow', 'labels', entries=500),
    ]
