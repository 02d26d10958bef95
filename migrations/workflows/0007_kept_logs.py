import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """What became of each try's log, and the objects in the store of logs."""

    dependencies = [
        ('workflows', '0006_task_live_index'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeptLog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=90, unique=True)),
                ('size', models.PositiveBigIntegerField(default=0, help_text='Bytes in the store, compressed.')),
                ('begun_at', models.DateTimeField(auto_now_add=True)),
                ('stored_at', models.DateTimeField(db_index=True, null=True)),
            ],
            options={
                'ordering': ['stored_at'],
            },
        ),
        migrations.AddField(
            model_name='task',
            name='log_note',
            field=models.CharField(blank=True, db_default='', default='', help_text='Why its log is not kept.', max_length=300),
        ),
        migrations.AddField(
            model_name='task',
            name='log_state',
            field=models.CharField(blank=True, choices=[('kept', 'Kept'), ('unread', 'Unread'), ('dropped', 'Dropped')], db_default='', default='', max_length=8),
        ),
        migrations.AddField(
            model_name='task',
            name='log_try_at',
            field=models.DateTimeField(help_text='Until then somebody reads its log, or waits to try again.', null=True),
        ),
        migrations.AddField(
            model_name='keptlog',
            name='task',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='kept_log', to='workflows.task'),
        ),
    ]
