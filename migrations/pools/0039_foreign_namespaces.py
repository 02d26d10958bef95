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
            name='namespaces',
            field=models.TextField(db_default='[]', default='[]', help_text='JSON: of each namespace that uses most of the node its name and these five amounts.'),
        ),
    ]
