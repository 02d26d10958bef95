from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """The index by which logs are found that nobody has read yet; built beside the work, without a lock."""

    atomic = False

    dependencies = [
        ('workflows', '0007_kept_logs'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='task',
            index=models.Index(condition=models.Q(('end_time__isnull', False), ('log_state', '')), fields=['group'], name='task_log_is_open'),
        ),
    ]
