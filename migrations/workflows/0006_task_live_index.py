from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    """The index by which live tasks are listed among all there ever were; built without a lock."""

    atomic = False

    dependencies = [
        ('workflows', '0005_restart'),
    ]

    operations = [
        BuildIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('status__in', ['SUBMITTING', 'WAITING', 'PROCESSING', 'SCHEDULING', 'INITIALIZING', 'RUNNING'])), fields=['-id'], name='task_live'),
        ),
    ]
