from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    """By which what is in use is found beside thousands of tasks that wait; built without a lock."""

    atomic = False

    dependencies = [
        ('workflows', '0037_lists_of_pools_and_labels'),
    ]

    operations = [
        BuildIndex(
            model_name='task',
            index=models.Index(
                fields=['-id'],
                condition=models.Q(
                    ('status__in', ['SUBMITTING', 'WAITING', 'PROCESSING', 'SCHEDULING', 'INITIALIZING', 'RUNNING']),
                    models.Q(('node_name', ''), _negated=True),
                ),
                name='task_holds_node',
            ),
        ),
    ]
