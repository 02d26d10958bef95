"""The right to write in a cluster stands in a row beside the mark in its namespace."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0014_observer_lease'),
    ]

    operations = [
        migrations.CreateModel(
            name='ClusterGuard',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster_uid', models.CharField(max_length=64)),
                ('namespace', models.CharField(max_length=63)),
                ('epoch', models.PositiveBigIntegerField(default=0)),
                ('nonce', models.CharField(blank=True, default='', max_length=32)),
                ('pending_nonce', models.CharField(blank=True, default='', help_text='Of epoch + 1, which is written to the cluster next.', max_length=32)),
                ('raised_at', models.DateTimeField(help_text='When a raise of the epoch was last begun.', null=True)),
                ('confirmed_at', models.DateTimeField(help_text='When the ConfigMap last got this epoch and nonce.', null=True)),
                ('refusal', models.TextField(blank=True, default='', help_text='Why nothing may be written in the cluster, by the last examination.')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('cluster_uid', 'namespace'), name='clusterguard_once_per_namespace')],
            },
        ),
    ]
