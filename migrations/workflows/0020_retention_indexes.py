import django.contrib.postgres.indexes
import django.db.models.fields.json
from django.db import migrations, models

from web.database.migrating import BuildIndex


class Migration(migrations.Migration):
    """The indexes by which removals and lists are quick among all workflows there are; built without a lock."""

    atomic = False

    dependencies = [
        ('pools', '0013_retention'),
        ('workflows', '0019_name_counter'),
    ]

    operations = [
        BuildIndex(
            model_name='taskgroup',
            index=models.Index(models.F('backend'), django.db.models.fields.json.KeyTextTransform('namespace', 'placement'), name='taskgroup_namespace'),
        ),
        BuildIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('end_time__isnull', False)), fields=['pool_name', 'end_time'], name='workflow_ended'),
        ),
        BuildIndex(
            model_name='workflow',
            index=models.Index(fields=['submitted_by', 'pool_name'], name='workflow_submitters'),
        ),
        BuildIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('tags', []), _negated=True), fields=['pool_name'], name='workflow_tagged'),
        ),
        BuildIndex(
            model_name='workflow',
            index=django.contrib.postgres.indexes.GinIndex(fields=['tags'], name='workflow_tags'),
        ),
        BuildIndex(
            model_name='workflow',
            index=django.contrib.postgres.indexes.GinIndex(fields=['labels'], name='workflow_labels'),
        ),
    ]
