# The table stays and belongs to doctor.ConsistencyCheck from here on (doctor 0001_initial).

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('workflows', '0014_notifications_field'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[],
            state_operations=[migrations.DeleteModel(name='AuditRun')],
        ),
    ]
