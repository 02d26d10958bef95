from django.db import migrations, models

from web.database.migrating import LockTables


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0037_news'),
    ]

    operations = [
        LockTables('pool'),
        migrations.AddField(
            model_name='pool',
            name='allow_exec',
            field=models.BooleanField(db_default=False, default=False, help_text='Users may run commands in running tasks.'),
        ),
        migrations.AddField(
            model_name='pool',
            name='allow_port_forward',
            field=models.BooleanField(db_default=False, default=False, help_text='Users may forward ports of running tasks.'),
        ),
    ]
