from django.db import migrations, models

from web.database.migrating import LockTables


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0045_gang_form'),
    ]

    operations = [
        LockTables('observedgang'),
        migrations.AddField(
            model_name='observedgang',
            name='queue',
            field=models.CharField(blank=True, db_default='', default='', max_length=253),
        ),
    ]
