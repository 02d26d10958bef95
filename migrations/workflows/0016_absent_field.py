"""The model's field is called ``absent``; its column keeps its name, so no table changes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0015_consistency_check_moves'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField(
                    model_name='observedpod',
                    old_name='gone',
                    new_name='absent',
                ),
                migrations.AlterField(
                    model_name='observedpod',
                    name='absent',
                    field=models.BooleanField(db_column='gone', default=False, help_text='It is no longer in the cluster.'),
                ),
            ],
        ),
    ]
