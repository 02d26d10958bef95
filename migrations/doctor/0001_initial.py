import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='ConsistencyCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('requested_by', models.CharField(max_length=150)),
                ('requested_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('began_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('failure', models.TextField(blank=True, db_default='', default='')),
                ('report', models.JSONField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.Value(1), condition=models.Q(('ended_at', None)), name='consistencycheck_unfinished')],
            },
        ),
    ]
