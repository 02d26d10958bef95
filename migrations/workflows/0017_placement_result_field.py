"""The model's field is called ``placement_result``; its column keeps its name, so no table changes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0016_absent_field'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField(
                    model_name='taskgroup',
                    old_name='got',
                    new_name='placement_result',
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='placement_result',
                    field=models.JSONField(db_column='got', help_text='How its placement satisfies its requirements; see workflows.feasibility.placement.placed.', null=True),
                ),
            ],
        ),
    ]
