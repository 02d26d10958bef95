from django.db import migrations, models

from web.database.migrating import LockTables


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0038_sessions'),
    ]

    operations = [
        LockTables('foreignusage'),
        migrations.AddField(
            model_name='foreignusage',
            name='shares',
            field=models.TextField(db_default='[]', default='[]', help_text='JSON: namespace, by what they may be preempted, amounts; of those that use most.'),
        ),
    ]
