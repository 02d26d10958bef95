from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    """The index by which logs are found that nobody has read yet; built beside the work, without a lock."""

    atomic = False

    dependencies = [
        ('workflows', '0007_kept_logs'),
    ]

    operations = [
        BuildIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('end_time__isnull', False), ('log_state', '')), fields=['group'], name='task_log_is_open'),
        ),
    ]
