"""When due groups were last looked for stands in a row that no change of configuration locks."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0011_foreign_usage'),
    ]

    operations = [
        migrations.CreateModel(
            name='SweepRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('singleton', models.BooleanField(default=True, editable=False, unique=True)),
                ('ran_at', models.DateTimeField(editable=False)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('singleton', True)), name='sweeprun_is_one_row')],
            },
        ),
    ]
