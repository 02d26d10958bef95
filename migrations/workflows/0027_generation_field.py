"""The models' field is called ``generation``; its columns keep their name, so no table changes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0026_pins'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField(
                    model_name='taskgroup',
                    old_name='attempt',
                    new_name='generation',
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='generation',
                    field=models.PositiveIntegerField(db_column='attempt', default=0, help_text='Counts generations of its pod groups, from 0.'),
                ),
                migrations.RenameField(
                    model_name='task',
                    old_name='attempt',
                    new_name='generation',
                ),
                migrations.AlterField(
                    model_name='task',
                    name='generation',
                    field=models.PositiveIntegerField(db_column='attempt', default=0, help_text='The generation of its group\'s pod groups that its pod joins.'),
                ),
            ],
        ),
    ]
