"""The model is called ``ForeignUsage``; its table keeps its name, so the database does not change."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0010_held_by_others'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel(
                    old_name='HeldByOthers',
                    new_name='ForeignUsage',
                ),
                migrations.AlterModelTable(
                    name='foreignusage',
                    table='pools_heldbyothers',
                ),
                migrations.AlterField(
                    model_name='foreignusage',
                    name='cluster',
                    field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='foreign_usage', to='pools.cluster'),
                ),
            ],
        ),
    ]
