"""The model's field is called ``notifications``; its column keeps its name, so no table changes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0013_waiting_evidence'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField(
                    model_name='taskgroup',
                    old_name='nudges',
                    new_name='notifications',
                ),
                migrations.AlterField(
                    model_name='taskgroup',
                    name='notifications',
                    field=models.PositiveBigIntegerField(db_column='nudges', default=0, help_text='Rises with each notification that something may be due.'),
                ),
            ],
        ),
        migrations.AlterField(
            model_name='taskgroup',
            name='next_reconcile_at',
            field=models.DateTimeField(help_text='When it is due; null: on notification.', null=True),
        ),
    ]
